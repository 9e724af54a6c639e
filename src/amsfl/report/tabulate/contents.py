"""The tables: the paper's two, with its numbers beside ours, and what the paper does not show."""

from collections.abc import Sequence

from amsfl.report.measure import stats
from amsfl.report.measure.measures import Measured, pairs
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.table import Column, Row, Table, Value

METHOD = Column("method", "Method")
MANY = 12  # clients; beyond this a table shows the mean and the worst


def tables(study: Study) -> list[Table]:
    made = [accuracy(study)]
    if study.target is not None:
        made.append(convergence(study))
    made += [beyond(study), recall(study)]
    if study.rest:
        made.append(comparison(study))
    return [_noted(table, study) for table in made]


def _noted(table: Table, study: Study) -> Table:
    """Notes below the table, and in every row that they are about."""
    about = {one.series.label: one.series.note for one in study.found}
    rows = [
        row._replace(note=" ".join(filter(None, [study.banner, about.get(str(row.values["method"]), "")])))
        for row in table.rows
    ]
    marks = dict.fromkeys(one.series.note for one in study.found)
    more = study.notes if table.name in ("table1", "table2", "tests") else []
    return table._replace(rows=rows, notes=list(filter(None, [study.banner, *table.notes, *marks, *more])))


def accuracy(study: Study) -> Table:
    """The paper's first table."""
    clients = [f"c{i}" for i in range(1, study.clients + 1)]
    listed = clients if len(clients) <= MANY else []
    columns = [METHOD, *(Column(f"acc_{c}", f"ACC {c.upper()}", 4, "max") for c in listed)]
    columns += [
        Column("acc_global", "ACC global", 4, "max"),
        Column("time_per_round", "Time/round, s", 2, "min"),
    ]
    columns += [Column("trials", "Trials")]
    rows = []
    for one in study.found:
        values: dict[str, Value] = {"method": one.series.label, "trials": float(len(one.values))}
        values |= {f"acc_{c}": _mean(one, f"accuracy_holdout_{c}") for c in listed}
        values["acc_global"] = one.mean("accuracy_holdout")
        values["time_per_round"] = _mean(one, f"round_seconds_{study.clock}")
        rows.append(Row(values, _paper_accuracy(study, one)))
    end = f"{study.seconds:g} virtual seconds" if study.seconds else "the last round"
    notes = [
        f"Hold-out accuracy after {end}, {study.clock} clock; mean over trials, in brackets its 95% interval "
        "(Student's t). ACC Ci is client i's own model after its local steps in the last round."
    ]
    return Table("table1", f"Accuracy and time per round after {end}", columns, rows, notes)


def _paper_accuracy(study: Study, one: Measured) -> dict[str, Value] | None:
    row = PAPER.get(one.series.key) if study.paper else None
    if row is None:
        return None
    clients: dict[str, Value] = {f"acc_c{i}": score for i, score in enumerate(row.clients, start=1)}
    return clients | {"acc_global": row.accuracy, "time_per_round": row.round_seconds}


def convergence(study: Study) -> Table:
    """The paper's second table."""
    assert study.target is not None
    goal = f"{100 * study.target:g}%"
    columns = [
        METHOD,
        Column("reached", "Reached"),
        Column("seconds", f"Seconds to {goal}", 2, "min"),
        Column("rounds", f"Rounds to {goal}", 1, "min"),
        Column("time_per_round", "Time/round, s", 2, "min"),
    ]
    rows = []
    for one in study.found:
        hits, trials = int(sum(one.known("reached"))), len(one.values)
        row = PAPER.get(one.series.key) if study.paper and study.target == TARGET else None
        values: dict[str, Value] = {
            "method": one.series.label,
            "reached": f"{hits} of {trials}",
            "seconds": one.mean(f"least_{study.clock}"),
            "rounds": one.mean("least_rounds"),
            "time_per_round": _mean(one, "round_seconds_to"),
        }
        beside: dict[str, Value] | None = None
        if row:
            beside = {
                "seconds": row.seconds,
                "rounds": float(row.rounds),
                "time_per_round": row.seconds_per_round,
            }
        rows.append(Row(values, beside, frozenset({"seconds", "rounds"}) if hits < trials else frozenset()))
    notes = [
        f"Virtual time ({study.clock} clock) to the end of the first round whose hold-out accuracy is "
        f"at least {goal}; mean over trials and its 95% interval (Student's t). Where a trial did not get "
        "there, the whole time it ran counts for it, and the mean is a lower bound, marked ≥."
    ]
    return Table("table2", f"Convergence time and rounds to reach {goal} accuracy", columns, rows, notes)


def beyond(study: Study) -> Table:
    """What the paper does not show."""
    test = [("acc_test", f"ACC {study.test}", "accuracy_test")] if study.has_test else []
    test += [("f1_test", f"Macro-F1 {study.test}", "macro_f1_test")] if study.has_test else []
    scores = [*test[:1], ("f1_holdout", "Macro-F1 hold-out", "macro_f1_holdout"), *test[1:]]
    other = "makespan" if study.clock == "sum" else "sum"
    columns = [METHOD, *(Column(key, head, 4, "max") for key, head, _ in scores)]
    columns += [
        Column("rounds", "Rounds", 1),
        Column("steps", "Client steps", 0),
        Column("megabytes", "MB sent", 1),
    ]
    columns += [
        Column("time_sum", "Time/round sum, s", 2),
        Column("time_makespan", "Time/round makespan, s", 2),
    ]
    goal = f"{100 * study.target:g}%" if study.target is not None else ""
    columns += [Column("seconds_other", f"Seconds to {goal} by {other}", 2, "min")] if goal else []
    rows = []
    for one in study.found:
        values: dict[str, Value] = {"method": one.series.label}
        values |= {key: one.mean(name) for key, _, name in scores}
        values |= {key: _mean(one, key) for key in ("rounds", "steps", "megabytes")}
        values |= {f"time_{name}": _mean(one, f"round_seconds_{name}") for name in ("sum", "makespan")}
        least = frozenset({"seconds_other"}) if sum(one.known("reached")) < len(one.values) else frozenset()
        rows.append(
            Row(values | {"seconds_other": one.mean(f"least_{other}")}, None, least if goal else frozenset())
        )
    notes = [
        "Both round clocks: sum, clients one after another; makespan, side by side. MB sent counts both "
        "ways, all clients. Macro-F1 is the mean over classes: rare ones count as much as common ones."
    ]
    title = (
        "Beyond the paper: other scores, costs, both clocks"
        if study.paper
        else "Other scores, costs, both clocks"
    )
    return Table("table3", title, columns, rows, notes)


def recall(study: Study) -> Table:
    """Accuracy is blind to rare classes; recall a class is not."""
    splits, names = study.splits, study.classes
    columns = [METHOD] + [
        Column(f"{split}_{name}", f"{name}, {title}", 3, "max") for split, title in splits for name in names
    ]
    rows = [
        Row(
            {"method": one.series.label}
            | {
                f"{split}_{n}": one.mean(f"recall_{split}_{i}")
                for split, _ in splits
                for i, n in enumerate(names)
            }
        )
        for one in study.found
    ]
    return Table(
        "recall", "Recall of every class", columns, rows, ["The part of a class's rows that is found."]
    )


def comparison(study: Study) -> Table:
    """The reference against every other method, trial by trial."""
    ours = study.reference
    label, rest = ours.series.label, study.rest
    columns, values = [Column("method", f"{label} against")], [{"method": r.series.label} for r in rest]
    rows: list[dict[str, Value]] = [dict(value) for value in values]
    if study.target is not None:
        times = [pairs(ours, other, f"least_{study.clock}") for other in rest]
        columns += [Column("speedup", f"Speed-up to {100 * study.target:g}%", 2)]
        columns += [Column("speedup_p", "p", 4), Column("speedup_holm", "p, Holm", 4)]
        for row, (mine, theirs) in zip(rows, times, strict=True):
            row["speedup"] = stats.ratio(theirs, mine)
        _add_tests(rows, times, "speedup")
    for key, name, head in (
        ("accuracy", "accuracy_holdout", "ACC hold-out"),
        *([("test", "accuracy_test", f"ACC {study.test}")] if study.has_test else []),
    ):
        scores = [pairs(ours, other, name) for other in rest]
        columns += [Column(key, f"{head}, points", 2, sign=True)]
        columns += [Column(f"{key}_p", "p", 4), Column(f"{key}_holm", "p, Holm", 4)]
        for row, (mine, theirs) in zip(rows, scores, strict=True):
            row[key] = stats.estimate([100 * (a - b) for a, b in zip(mine, theirs, strict=True)])
        _add_tests(rows, scores, key)
    trials = max((len(one.values) for one in study.found), default=0)
    notes = [
        f"Pairs of trials with the same partition, first model and sampling. Speed-up: geometric mean of the "
        f"other's time over {label}'s (above 1: {label} is faster), its 95% interval by t on logarithms; a "
        "trial that did not reach the target counts with the time it ran. Points: difference in per cent. p: "
        f"Wilcoxon's signed-rank test, two-sided; Holm: corrected for {len(rest)} comparisons. With {trials} "
        f"trials the smallest possible p is {stats.least_p(trials):.2g}."
    ]
    return Table("tests", f"{label} against each method", columns, [Row(row) for row in rows], notes)


def _add_tests(
    rows: list[dict[str, Value]], samples: Sequence[tuple[list[float], list[float]]], key: str
) -> None:
    p = [stats.wilcoxon(mine, theirs) for mine, theirs in samples]
    for row, raw, corrected in zip(rows, p, stats.holm(p), strict=True):
        row[f"{key}_p"], row[f"{key}_holm"] = raw, corrected


def _mean(one: Measured, name: str) -> float | None:
    found = one.mean(name)
    return found.mean if found else None
