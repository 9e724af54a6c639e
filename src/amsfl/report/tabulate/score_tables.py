"""Tables of scores, times and costs: the paper's two, with its numbers beside ours, and one of the rest."""

from amsfl.core import Score
from amsfl.core.scores import CLASSES, NUMBERS
from amsfl.report.measure.measures import OWN, MeasuredSeries
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.subject import Subject
from amsfl.report.tabulate.table import METHOD, ReportTable, TableColumn, TableRow, Value

MANY = 12  # clients; beyond this a table shows the global model alone
KEYS = {"accuracy": "acc", "macro_f1": "f1", "f1": "f1_class"}  # of scores, in the columns of the files


def final_scores(subject: Subject) -> ReportTable:
    """The paper's first table."""
    clients = range(1, subject.clients + 1) if subject.clients <= MANY else range(0)
    client_score = "R²" if subject.is_regression else "ACC"
    score, base = subject.score, _base_label(subject)
    columns = [
        METHOD,
        *(TableColumn(f"acc_c{i}", f"{client_score} {subject.client(i)}", 4, "max") for i in clients),
        TableColumn("acc_global", f"{score.short} global", 4, "max" if score.larger else "min"),
        TableColumn("time_per_round", "Time/round, s", 2, "min"),
        TableColumn("trials", "Trials"),
    ]
    rows = []
    for one in subject.methods:
        printed = PAPER.get(one.series.key) if subject.paper else None
        paper = printed and {
            **{f"acc_c{i}": score for i, score in enumerate(printed.clients, start=1)},
            "acc_global": printed.accuracy,
            "time_per_round": printed.round_seconds,
        }
        values: dict[str, Value] = {
            "method": one.label,
            **{f"acc_c{i}": mean(one, f"{subject.client_measure}_c{i}") for i in clients},
            "acc_global": one.mean(score.measure("holdout")),
            "time_per_round": mean(one, f"round_seconds_{subject.clock}"),
            "trials": float(len(one.values)),
        }
        rows.append(TableRow(values, paper))
    if "holdout" in subject.base:
        rows.append(TableRow({"method": base, "acc_global": subject.base["holdout"]}, aside=True))
    end = "the last round"
    summaries = [trial.summary for one in subject.methods for trial in one.series.trials]
    # rounds may have ended a trial before its seconds did
    if subject.seconds and all(
        each.virtual_seconds_by_clock[subject.clock] >= subject.seconds or each.status == "diverged"
        for each in summaries
    ):
        end = f"{subject.seconds:g} virtual seconds"
    note = (
        f"{score.heading} on the {subject.judged_on} after {end}, {subject.clock} clock; mean over trials, "
        "in brackets its 95% interval (Student's t)."
    )
    if clients:
        note += f" {client_score} of a client: its own model after its local steps in the last round."
    if "holdout" in subject.base:
        note += f" {base}: the score of always predicting it."
    title = f"{score.heading} and time per round after {end}"
    return ReportTable("table1", title, columns, rows, [note])


def _base_label(subject: Subject) -> str:
    return subject.base_name.removeprefix("the ").capitalize()


def time_to_target(subject: Subject) -> ReportTable | None:
    """The paper's second table."""
    if subject.target is None:
        return None
    columns = [
        METHOD,
        TableColumn("reached", "Reached"),
        TableColumn("seconds", f"Seconds to {subject.goal}", 2, "min"),
        TableColumn("rounds", f"Rounds to {subject.goal}", 1, "min"),
        TableColumn("time_per_round", "Time/round, s", 2, "min"),
    ]
    rows = []
    for one in subject.methods:
        values: dict[str, Value] = {
            "method": one.label,
            "reached": f"{int(sum(one.numbers('reached')))} of {len(one.values)}",
            "seconds": one.mean(f"least_{subject.clock}"),
            "rounds": one.mean("least_rounds"),
            "time_per_round": mean(one, "round_seconds_to"),
        }
        least = frozenset(() if one.reached_target else {"seconds", "rounds"})
        printed = PAPER.get(one.series.key) if subject.paper and subject.target == TARGET else None
        paper = printed and {
            "seconds": printed.seconds,
            "rounds": float(printed.rounds),
            "time_per_round": printed.seconds_per_round,
        }
        rows.append(TableRow(values, paper, least))
    bound = "least" if subject.score.larger else "most"
    level = subject.goal if subject.score.name == "accuracy" else f"{subject.target:g}"
    note = (
        f"Virtual time ({subject.clock} clock) to the end of the first round whose {subject.score.title} on "
        f"the {subject.judged_on} is at {bound} {level}; mean over trials, its 95% interval (Student's t). "
        "A trial that missed the target counts with the whole time it ran, one that diverged with the time "
        "and rounds that it was given; the mean is then a lower bound, marked ≥."
    )
    accuracy = " accuracy" if subject.score.name == "accuracy" else ""
    title = f"Convergence time and rounds to reach {subject.goal}{accuracy}"
    return ReportTable("table2", title, columns, rows, [note])


def other_scores(subject: Subject) -> ReportTable:
    """Scores that the first table does not have, costs, and both clocks."""
    scores = _score_columns(subject)
    other_clock = "makespan" if subject.clock == "sum" else "sum"
    has_target = subject.target is not None
    heads = {"joules": "Joules", "cost": "Cost"}
    if has_target:
        heads = {"joules": "Joules", "least_joules": f"Joules to {subject.goal}", "cost": "Cost"}
    # what every record has
    spent = {key: head for key, head in heads.items() if all(one.numbers(key) for one in subject.methods)}
    columns = [
        METHOD,
        *(column for column, _ in scores),
        TableColumn("rounds", "Rounds", 1),
        TableColumn("steps", "Client steps", 0),
        TableColumn("megabytes", "MB sent", 1),
        *(TableColumn(key, head, 1) for key, head in spent.items()),
        TableColumn("time_sum", "Time/round sum, s", 2),
        TableColumn("time_makespan", "Time/round makespan, s", 2),
    ]
    if has_target:
        columns.append(TableColumn("seconds_other", f"Seconds to {subject.goal} by {other_clock}", 2, "min"))
    rows = []
    for one in subject.methods:
        values: dict[str, Value] = {
            "method": one.label,
            **{column.key: one.mean(name) for column, name in scores},
            **{key: mean(one, key) for key in ("rounds", "steps", "megabytes", *spent)},
            **{f"time_{name}": mean(one, f"round_seconds_{name}") for name in ("sum", "makespan")},
            "seconds_other": one.mean(f"least_{other_clock}"),
        }
        least = {"seconds_other", "least_joules"} if has_target and not one.reached_target else set()
        rows.append(TableRow(values, None, frozenset(least)))
    if "test" in subject.base and subject.has_test:
        score_key = f"{_key(subject.score)}_test"
        rows.append(TableRow({"method": _base_label(subject), score_key: subject.base["test"]}, aside=True))
    note = (
        "Both round clocks: sum, clients one after another; makespan, side by side. MB sent counts both "
        "ways, all clients."
    )
    if not subject.is_regression:
        note += " Macro-F1 is the mean over classes: rare ones count as much as common ones."
    if any(column.key == "ece_holdout" for column, _ in scores):
        note += (
            " AUC: the mean over classes, each against the rest. ECE, the expected calibration error: how "
            "far confidence is from the share that is right."
        )
    title = "Other scores, costs, both clocks"
    title = f"Beyond the paper: {title.lower()}" if subject.paper else title
    return ReportTable("table3", title, columns, rows, [note])


def _key(score: Score) -> str:
    return KEYS.get(score.key, score.key)


def _score_columns(subject: Subject) -> list[tuple[TableColumn, str]]:
    """Column and measure of every score that the first table does not have."""
    usual = [*(NUMBERS if subject.is_regression else CLASSES).values()]
    splits = [("test", subject.test)] if subject.has_test else []
    columns = []
    for one in (*usual, *([] if subject.score in usual else [subject.score])):
        holdout = [("holdout", subject.judged_on)] if one != subject.score else []
        for split, title in [*splits, *holdout]:
            column = TableColumn(
                f"{_key(one)}_{split}", f"{one.short} {title}", 4, "max" if one.larger else "min"
            )
            columns.append((column, one.measure(split)))
    if any(one.numbers("ece_holdout") for one in subject.methods):
        auc = TableColumn("auc_holdout", f"AUC {subject.judged_on}", 4, "max")
        ece = TableColumn("ece_holdout", f"ECE {subject.judged_on}", 4, "min")
        columns += [(auc, "macro_auc_holdout")] if subject.score.key != "macro_auc" else []
        columns.append((ece, "ece_holdout"))
    return columns


def own_metrics(subject: Subject) -> ReportTable | None:
    """Scores without a column elsewhere: metrics of the user's own."""
    keys = {key for one in subject.methods for row in one.values for key in row if key.startswith(OWN)}
    shown = [key for key in sorted(keys) if any(one.numbers(key) for one in subject.methods)]
    if not shown:
        return None
    columns = [METHOD, *(TableColumn(key, key.removeprefix(OWN), 4) for key in shown)]
    rows = [
        TableRow({"method": one.label} | {key: one.mean(key) for key in shown}) for one in subject.methods
    ]
    note = "From the last round that reported them; clients' own are means by rows."
    return ReportTable("own", "Metrics of the users' own", columns, rows, [note])


def mean(one: MeasuredSeries, name: str) -> float | None:
    """Without its interval."""
    estimate = one.mean(name)
    return estimate.mean if estimate else None
