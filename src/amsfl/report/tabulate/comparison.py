"""The reference against every other method, trial by trial."""

from collections.abc import Sequence

from amsfl.report.measure import stats
from amsfl.report.measure.measures import pairs
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.table import Column, Row, Table, Value


def comparison(study: Study) -> Table:
    ours, rest = study.reference, study.rest
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
        ("accuracy", "accuracy_holdout", f"ACC {study.judge}"),
        *([("test", "accuracy_test", f"ACC {study.test}")] if study.has_test else []),
    ):
        scores = [pairs(ours, other, name) for other in rest]
        columns += [Column(key, f"{head}, points", 2, sign=True)]
        columns += [Column(f"{key}_p", "p", 4), Column(f"{key}_holm", "p, Holm", 4)]
        for row, (mine, theirs) in zip(rows, scores, strict=True):
            row[key] = stats.estimate([100 * (a - b) for a, b in zip(mine, theirs, strict=True)])
        _add_tests(rows, scores, key)
    trials = max(len(one.values) for one in study.found)
    speed = (
        f"Speed-up: geometric mean of the other's time over {ours.label}'s (above 1: {ours.label} is "
        "faster), its 95% interval by t on logarithms; a trial that did not reach the target counts with the "
        "time it ran. "
    )
    notes = [
        "Pairs of trials with the same partition, first model and sampling. "
        f"{speed if study.target is not None else ''}Points: difference in per cent. p: Wilcoxon's "
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
