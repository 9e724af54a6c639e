"""The reference against every other method, trial by trial."""

from collections.abc import Sequence

from amsfl.report.measure import stats
from amsfl.report.measure.measures import pairs
from amsfl.report.measure.ranking import points
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.table import Column, Row, Table, Value


def comparison(study: Study) -> Table:
    ours, rest = study.reference, study.rest
    unit, what = ("points", "difference in per cent") if study.score.most == 1 else ("gain", "difference")
    columns = [Column("method", f"{ours.label} against")]
    rows: list[dict[str, Value]] = [{"method": other.label} for other in rest]
    if study.target is not None:
        times = [pairs(ours, other, f"least_{study.clock}") for other in rest]
        columns += [Column("speedup", f"Speed-up to {study.goal}", 2)]
        columns += [Column("speedup_p", "p", 4), Column("speedup_holm", "p, Holm", 4)]
        for row, (mine, theirs) in zip(rows, times, strict=True):
            row["speedup"] = stats.ratio(theirs, mine)
        _add_tests(rows, times, "speedup")
    for key, name, head in (
        (study.score.key, study.score.measure("holdout"), f"{study.score.short} {study.judge}"),
        *(
            [("test", study.score.measure("test"), f"{study.score.short} {study.test}")]
            if study.has_test
            else []
        ),
    ):
        scores = [pairs(ours, other, name) for other in rest]
        columns += [Column(key, f"{head}, {unit}", 2, sign=True)]
        columns += [Column(f"{key}_p", "p", 4), Column(f"{key}_holm", "p, Holm", 4)]
        for row, (mine, theirs) in zip(rows, scores, strict=True):
            row[key] = points(study, mine, theirs)
        _add_tests(rows, scores, key)
    better = "" if study.score.larger else ", above 0 where ours is the smaller error"
    trials = max(len(one.values) for one in study.found)
    speed = (
        f"Speed-up: geometric mean of the other's time over {ours.label}'s (above 1: {ours.label} is "
        "faster), its 95% interval by t on logarithms; a trial that did not reach the target counts with the "
        "time it ran. "
    )
    notes = [
        "Pairs of trials with the same partition, first model and sampling. "
        f"{speed if study.target is not None else ''}{unit.capitalize()}: {what}{better}. p: Wilcoxon's "
        f"signed-rank test, two-sided; Holm: corrected for {len(rest)} comparisons. With {trials} "
        f"trial{'' if trials == 1 else 's'} the smallest possible p is {stats.least_p(trials):.2g}."
    ]
    return Table("tests", f"{ours.label} against each method", columns, [Row(row) for row in rows], notes)


def _add_tests(
    rows: list[dict[str, Value]], samples: Sequence[tuple[list[float], list[float]]], key: str
) -> None:
    p = [stats.wilcoxon(mine, theirs) for mine, theirs in samples]
    for row, raw, corrected in zip(rows, p, stats.holm(p), strict=True):
        row[f"{key}_p"], row[f"{key}_holm"] = raw, corrected
