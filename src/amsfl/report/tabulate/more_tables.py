"""What the paper does not show: other scores, costs, both clocks, and every class by itself."""

from amsfl.report.measure.measures import OWN
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.paper_tables import METHOD, mean
from amsfl.report.tabulate.table import Column, Row, Table, Value


def beyond(study: Study) -> Table:
    test = [("acc_test", f"ACC {study.test}", "accuracy_test")] if study.has_test else []
    test += [("f1_test", f"Macro-F1 {study.test}", "macro_f1_test")] if study.has_test else []
    scores = [*test[:1], ("f1_holdout", f"Macro-F1 {study.judge}", "macro_f1_holdout"), *test[1:]]
    other = "makespan" if study.clock == "sum" else "sum"
    aimed = study.target is not None
    columns = [
        METHOD,
        *(Column(key, head, 4, "max") for key, head, _ in scores),
        Column("rounds", "Rounds", 1),
        Column("steps", "Client steps", 0),
        Column("megabytes", "MB sent", 1),
        Column("time_sum", "Time/round sum, s", 2),
        Column("time_makespan", "Time/round makespan, s", 2),
        *([Column("seconds_other", f"Seconds to {study.goal} by {other}", 2, "min")] if aimed else []),
    ]
    rows = []
    for one in study.found:
        values: dict[str, Value] = {"method": one.label}
        values |= {key: one.mean(name) for key, _, name in scores}
        values |= {key: mean(one, key) for key in ("rounds", "steps", "megabytes")}
        values |= {f"time_{name}": mean(one, f"round_seconds_{name}") for name in ("sum", "makespan")}
        values["seconds_other"] = one.mean(f"least_{other}")
        rows.append(Row(values, None, frozenset({"seconds_other"} if aimed and not one.arrived else ())))
    if "test" in study.base and study.has_test:
        rows.append(Row({"method": "Commonest class", "acc_test": study.base["test"]}, aside=True))
    notes = [
        "Both round clocks: sum, clients one after another; makespan, side by side. MB sent counts both "
        "ways, all clients. Macro-F1 is the mean over classes: rare ones count as much as common ones."
    ]
    title = "Other scores, costs, both clocks"
    return Table(
        "table3", f"Beyond the paper: {title.lower()}" if study.paper else title, columns, rows, notes
    )


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
