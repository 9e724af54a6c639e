"""Which tables a report has, and what is said below them."""

from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.class_tables import classes, confusion, own_rows
from amsfl.report.tabulate.comparison import comparison
from amsfl.report.tabulate.doubt_table import doubts
from amsfl.report.tabulate.more_tables import beyond, own, recall
from amsfl.report.tabulate.paper_tables import accuracy, convergence
from amsfl.report.tabulate.table import Table
from amsfl.report.tabulate.time_table import time_spent


def tables(study: Study) -> list[Table]:
    made = [accuracy(study)]
    if study.target is not None:
        made.append(convergence(study))
    made.append(beyond(study))
    further = own(study)
    made += [further] if further else []
    if study.classes:
        made.append(recall(study))
    further_tables = (time_spent, classes, confusion, own_rows, doubts)
    made += [table for make in further_tables if (table := make(study)) is not None]
    if study.rest and not study.unlike:
        made.append(comparison(study))
    return [_noted(table, study) for table in made]


def _noted(table: Table, study: Study) -> Table:
    """Notes for a table that stands alone, and in every row that they are about."""
    about = {one.label: one.note for one in study.found}
    rows = [
        row._replace(note=" ".join(filter(None, [study.banner, about.get(str(row.values["method"]), "")])))
        for row in table.rows
    ]
    columns = [column._replace(best="") for column in table.columns] if study.unlike else table.columns
    return table._replace(columns=columns, rows=rows, shared=[*brief(study), *study.notes])


def brief(study: Study) -> list[str]:
    """What holds for all tables and figures: once on the page, and in every file that stands alone."""
    return list(filter(None, [study.banner, apart(study), *dict.fromkeys(one.note for one in study.found)]))


def apart(study: Study) -> str:
    if not study.unlike:
        return ""
    return (
        f"No comparison: these records differ in {'. In '.join(study.unlike)}. So nobody is named the best."
    )
