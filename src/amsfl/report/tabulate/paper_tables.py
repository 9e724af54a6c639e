"""The paper's two tables, with its numbers beside ours, and the base rate below them."""

from amsfl.report.measure.measures import Measured
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.table import Column, Row, Table, Value

METHOD = Column("method", "Method")
MANY = 12  # clients; beyond this a table shows the global model alone


def accuracy(study: Study) -> Table:
    """The paper's first table."""
    numbers = range(1, study.clients + 1) if study.clients <= MANY else range(0)
    usual = "R²" if study.local.startswith("r2") else "ACC"
    naive = study.naive.removeprefix("the ").capitalize()
    columns = [
        METHOD,
        *(Column(f"acc_c{i}", f"{usual} {study.client(i)}", 4, "max") for i in numbers),
        Column("acc_global", f"{study.score.short} global", 4, "max" if study.score.larger else "min"),
        Column("time_per_round", "Time/round, s", 2, "min"),
        Column("trials", "Trials"),
    ]
    rows = []
    for one in study.found:
        values: dict[str, Value] = {"method": one.label, "trials": float(len(one.values))}
        values |= {f"acc_c{i}": mean(one, f"{study.local}_c{i}") for i in numbers}
        values["acc_global"] = one.mean(study.score.measure("holdout"))
        values["time_per_round"] = mean(one, f"round_seconds_{study.clock}")
        rows.append(Row(values, _paper_accuracy(study, one)))
    if "holdout" in study.base:
        rows.append(Row({"method": naive, "acc_global": study.base["holdout"]}, aside=True))
    end = f"{study.seconds:g} virtual seconds" if study.seconds and _whole(study) else "the last round"
    notes = [
        f"{study.score.heading} on the {study.judge} after {end}, {study.clock} clock; mean over trials, in "
        "brackets its 95% interval (Student's t)."
    ]
    if numbers:
        notes[0] += f" {usual} of a client is that of its own model after its local steps in the last round."
    if "holdout" in study.base:
        notes[0] += f" {naive}: what saying it every time would score."
    title = f"{study.score.heading} and time per round after {end}"
    return Table("table1", title, columns, rows, notes)


def _whole(study: Study) -> bool:
    """Whether every trial had all its seconds: rounds may have ended it before."""
    trials = [trial.summary for one in study.found for trial in one.series.trials]
    least = study.seconds or 0.0
    return all(
        each.virtual_seconds_by_clock[study.clock] >= least or each.status == "diverged" for each in trials
    )


def _paper_accuracy(study: Study, one: Measured) -> dict[str, Value] | None:
    row = PAPER.get(one.series.key) if study.paper else None
    if row is None:
        return None
    clients: dict[str, Value] = {f"acc_c{i}": score for i, score in enumerate(row.clients, start=1)}
    return clients | {"acc_global": row.accuracy, "time_per_round": row.round_seconds}


def convergence(study: Study) -> Table:
    """The paper's second table."""
    columns = [
        METHOD,
        Column("reached", "Reached"),
        Column("seconds", f"Seconds to {study.goal}", 2, "min"),
        Column("rounds", f"Rounds to {study.goal}", 1, "min"),
        Column("time_per_round", "Time/round, s", 2, "min"),
    ]
    rows = []
    for one in study.found:
        values: dict[str, Value] = {
            "method": one.label,
            "reached": f"{int(sum(one.known('reached')))} of {len(one.values)}",
            "seconds": one.mean(f"least_{study.clock}"),
            "rounds": one.mean("least_rounds"),
            "time_per_round": mean(one, "round_seconds_to"),
        }
        least = frozenset(() if one.arrived else {"seconds", "rounds"})
        rows.append(Row(values, _paper_convergence(study, one), least))
    bound = "least" if study.score.larger else "most"
    notes = [
        f"Virtual time ({study.clock} clock) to the end of the first round whose {study.score.title} on the "
        f"{study.judge} is at {bound} {study.level}; mean over trials and "
        "its 95% interval (Student's t). Where a trial did not get there, the whole time it ran counts for "
        "it, and the mean is a lower bound, marked ≥."
    ]
    what = " accuracy" if study.score.name == "accuracy" else ""
    title = f"Convergence time and rounds to reach {study.goal}{what}"
    return Table("table2", title, columns, rows, notes)


def _paper_convergence(study: Study, one: Measured) -> dict[str, Value] | None:
    row = PAPER.get(one.series.key) if study.paper and study.target == TARGET else None
    if row is None:
        return None
    return {"seconds": row.seconds, "rounds": float(row.rounds), "time_per_round": row.seconds_per_round}


def mean(one: Measured, name: str) -> float | None:
    found = one.mean(name)
    return found.mean if found else None
