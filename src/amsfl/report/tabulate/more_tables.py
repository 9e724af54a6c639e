"""What the paper does not show: other scores, costs, both clocks, and every class by itself."""

from amsfl.core import Score
from amsfl.core.scores import CLASSES, NUMBERS
from amsfl.report.measure.measures import OWN
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.paper_tables import METHOD, mean
from amsfl.report.tabulate.table import Column, Row, Table, Value

SHORT = {"accuracy": "acc", "macro_f1": "f1", "f1": "f1_class"}  # in the columns of the files


def beyond(study: Study) -> Table:
    scores = _scores(study)
    other = "makespan" if study.clock == "sum" else "sum"
    aimed = study.target is not None
    spent = _spent(study)
    columns = [
        METHOD,
        *(Column(key, head, 4, best) for key, head, _, best in scores),
        Column("rounds", "Rounds", 1),
        Column("steps", "Client steps", 0),
        Column("megabytes", "MB sent", 1),
        *(Column(key, head, 1) for key, head in spent.items()),
        Column("time_sum", "Time/round sum, s", 2),
        Column("time_makespan", "Time/round makespan, s", 2),
        *([Column("seconds_other", f"Seconds to {study.goal} by {other}", 2, "min")] if aimed else []),
    ]
    rows = []
    for one in study.found:
        values: dict[str, Value] = {"method": one.label}
        values |= {key: one.mean(name) for key, _, name, _ in scores}
        values |= {key: mean(one, key) for key in ("rounds", "steps", "megabytes", *spent)}
        values |= {f"time_{name}": mean(one, f"round_seconds_{name}") for name in ("sum", "makespan")}
        values["seconds_other"] = one.mean(f"least_{other}")
        least = {"seconds_other", "least_joules"} if aimed and not one.arrived else set()
        rows.append(Row(values, None, frozenset(least)))
    if "test" in study.base and study.has_test:
        naive = study.naive.removeprefix("the ").capitalize()
        rows.append(Row({"method": naive, f"{_short(study.score)}_test": study.base["test"]}, aside=True))
    notes = [
        "Both round clocks: sum, clients one after another; makespan, side by side. MB sent counts both "
        "ways, all clients."
    ]
    if not study.numbers:
        notes[0] += " Macro-F1 is the mean over classes: rare ones count as much as common ones."
    if any(key == "ece_holdout" for key, *_ in scores):
        notes[0] += (
            " AUC: the mean over classes, each against the rest. ECE, the expected calibration error: how "
            "far confidence is from the share that is right."
        )
    title = "Other scores, costs, both clocks"
    return Table(
        "table3", f"Beyond the paper: {title.lower()}" if study.paper else title, columns, rows, notes
    )


def _spent(study: Study) -> dict[str, str]:
    """Measures of what was spent and their heads, where every record has them."""
    heads = {"joules": "Joules", "least_joules": f"Joules to {study.goal}", "cost": "Cost"}
    kept = heads if study.target is not None else {key: heads[key] for key in ("joules", "cost")}
    return {key: head for key, head in kept.items() if all(one.known(key) for one in study.found)}


def own(study: Study) -> Table | None:
    """Scores that have no place elsewhere: metrics of the user's own, among others."""
    keys = sorted({key for one in study.found for row in one.values for key in row if key.startswith(OWN)})
    keys = [key for key in keys if any(one.known(key) for one in study.found)]
    if not keys:
        return None
    columns = [METHOD, *(Column(key, key.removeprefix(OWN), 4) for key in keys)]
    rows = [Row({"method": one.label} | {key: one.mean(key) for key in keys}) for one in study.found]
    notes = ["As the last round that had them reports them; clients' own are means by rows."]
    return Table("own", "Metrics of the users' own", columns, rows, notes)


def _short(score: Score) -> str:
    return SHORT.get(score.key, score.key)


def _scores(study: Study) -> list[tuple[str, str, str, str]]:
    """Key, head, measure and which is best of every score that the first table does not have."""
    known = [*(NUMBERS if study.numbers else CLASSES).values()]
    splits = [("test", study.test)] if study.has_test else []
    found = []
    for one in (*known, *([] if study.score in known else [study.score])):
        for split, title in [*splits, *([("holdout", study.judge)] if one != study.score else [])]:
            best = "max" if one.larger else "min"
            found.append((f"{_short(one)}_{split}", f"{one.short} {title}", one.measure(split), best))
    if any(one.known("ece_holdout") for one in study.found):
        if study.score.key != "macro_auc":
            found.append(("auc_holdout", f"AUC {study.judge}", "macro_auc_holdout", "max"))
        found.append(("ece_holdout", f"ECE {study.judge}", "ece_holdout", "min"))
    return found


def recall(study: Study) -> Table:
    """Accuracy is blind to rare classes; recall a class is not."""
    splits, names = study.splits, study.classes
    columns = [METHOD] + [
        Column(f"{split}_{name}", f"{name}, {title}", 3, "max") for split, title in splits for name in names
    ]
    rows = [
        Row(
            {"method": one.label}
            | {
                f"{split}_{name}": one.mean(f"recall_{split}_{place}")
                for split, _ in splits
                for place, name in enumerate(names)
            }
        )
        for one in study.found
    ]
    notes = ["The part of a class's rows that is found."]
    return Table("recall", "Recall of every class", columns, rows, notes)
