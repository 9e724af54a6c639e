"""Which tables a report has, and the notes below them; the table of paired tests."""

from collections.abc import Sequence

from amsfl.report.measure import stats
from amsfl.report.measure.measures import paired_times, pairs
from amsfl.report.measure.ranking import score_margin
from amsfl.report.measure.subject import Subject
from amsfl.report.tabulate.class_tables import classes, confusion, importance, recall
from amsfl.report.tabulate.client_tables import doubts, own_rows, time_spent
from amsfl.report.tabulate.score_tables import final_scores, other_scores, own_metrics, time_to_target
from amsfl.report.tabulate.table import ReportTable, TableColumn, TableRow, Value

Samples = Sequence[tuple[list[float], list[float]]]  # ours and the other's, trial by trial


def tables(subject: Subject) -> list[ReportTable]:
    makers = (
        *(final_scores, time_to_target, other_scores, own_metrics, recall),
        *(time_spent, classes, confusion, importance, own_rows, doubts, comparison),
    )
    return [_with_notes(table, subject) for make in makers if (table := make(subject)) is not None]


def _with_notes(table: ReportTable, subject: Subject) -> ReportTable:
    """Notes for a table that stands alone, and in every row that they are about."""
    about = {one.label: one.note for one in subject.methods}
    rows = [
        row._replace(note=" ".join(filter(None, [subject.banner, about.get(str(row.values["method"]), "")])))
        for row in table.rows
    ]
    columns = [column._replace(best="") for column in table.columns] if subject.differences else table.columns
    return table._replace(columns=columns, rows=rows, shared=[*shared_notes(subject), *subject.notes])


def shared_notes(subject: Subject) -> list[str]:
    """About all tables and figures: once on the page, and in every file that stands alone."""
    notes = dict.fromkeys(one.note for one in subject.methods)
    return list(filter(None, [subject.banner, no_comparison(subject), *notes]))


def no_comparison(subject: Subject) -> str:
    if not subject.differences:
        return ""
    return (
        f"No comparison: these records differ in {'. In '.join(subject.differences)}. "
        "So no method is named the best."
    )


def comparison(subject: Subject) -> ReportTable | None:
    """The reference against every other method, trial by trial."""
    ours, score = subject.reference, subject.score
    others = [one for one in subject.methods if one is not ours]
    if not others or subject.differences:
        return None
    unit, what = ("points", "difference in per cent") if score.most == 1 else ("gain", "difference")
    columns = [TableColumn("method", f"{ours.label} against")]
    rows: list[dict[str, Value]] = [{"method": other.label} for other in others]

    def add(key: str, column: TableColumn, samples: Samples, margins: Sequence[Value]) -> None:
        p = [stats.wilcoxon(mine, theirs) for mine, theirs in samples]
        columns.extend([column, TableColumn(f"{key}_p", "p", 4), TableColumn(f"{key}_holm", "p, Holm", 4)])
        for row, margin, raw, corrected in zip(rows, margins, p, stats.holm(p), strict=True):
            row |= {key: margin, f"{key}_p": raw, f"{key}_holm": corrected}

    if subject.target is not None:
        times = [paired_times(ours, other, subject.clock) for other in others]
        ratios = [stats.ratio(theirs, mine) for mine, theirs in times]
        add("speedup", TableColumn("speedup", f"Speed-up to {subject.goal}", 2), times, ratios)
    for key, (split, title) in zip((score.key, "test"), subject.splits, strict=False):
        samples = [pairs(ours, other, score.measure(split)) for other in others]
        margins = [score_margin(score, mine, theirs) for mine, theirs in samples]
        add(key, TableColumn(key, f"{score.short} {title}, {unit}", 2, sign=True), samples, margins)
    better = "" if score.larger else ", above 0 where ours is the smaller error"
    trials = max(len(one.values) for one in subject.methods)
    speed = (
        f"Speed-up: geometric mean of the other's time over {ours.label}'s (above 1: {ours.label} is "
        "faster), its 95% interval by t on logarithms; a trial that missed the target counts with the time "
        "it ran or, if that is longer, with the other's, and pairs in which neither reached it say nothing. "
        f"A lower bound, marked ≥, where only {ours.label} reached it in every trial. "
    )
    note = (
        "Pairs of trials with the same partition, first model and sampling. "
        f"{speed if subject.target is not None else ''}{unit.capitalize()}: {what}{better}. p: Wilcoxon's "
        f"signed-rank test, two-sided; Holm: corrected for {len(others)} "
        f"comparison{'' if len(others) == 1 else 's'}. With {trials} "
        f"trial{'' if trials == 1 else 's'} the smallest possible p is {stats.least_p(trials):.2g}."
    )
    title = f"{ours.label} against each method"
    missed = [ours.reached_target and not other.reached_target for other in others]
    bounds = [frozenset({"speedup"} if bound else ()) for bound in missed]
    made = [TableRow(row, least=least) for row, least in zip(rows, bounds, strict=True)]
    return ReportTable("tests", title, columns, made, [note])
