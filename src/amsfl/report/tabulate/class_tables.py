"""Classes one by one, confusion, and each client's own rows: what a mean over all rows hides."""

import numpy as np

from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.paper_tables import MANY, METHOD
from amsfl.report.tabulate.table import Column, Row, Table, Value

LARGE = 20  # classes; a confusion matrix beyond it is no table to read


def classes(study: Study) -> Table | None:
    """Precision, recall, F1 and AUC of every class, method by method."""
    heads = {"precision": "Precision", "recall": "Recall", "f1": "F1", "auc": "AUC"}
    if not any(
        one.known(f"auc_holdout_{place}") for one in study.found for place in range(len(study.classes))
    ):
        return None
    columns = [METHOD, Column("class", "Class"), *(Column(key, head, 3) for key, head in heads.items())]
    rows = [
        Row({"method": one.label, "class": name} | {key: one.mean(f"{key}_holdout_{place}") for key in heads})
        for one in study.found
        for place, name in enumerate(study.classes)
    ]
    notes = [
        f"On the {study.judge}. Precision: of the rows said to be of the class, those that are. Recall: of "
        "its rows, those found. F1: their harmonic mean. AUC: the chance that a row of the class is ranked "
        "above another one. A dash: the class has no rows there, or was never predicted."
    ]
    return Table("classes", "Every class by itself", columns, rows, notes)


def confusion(study: Study) -> Table | None:
    """The reference's, all trials added up."""
    found = _confusion(study.reference)
    if found is None or not 1 < len(found) <= LARGE or len(found) != len(study.classes):
        return None
    columns = [Column("method", "True class")]
    columns += [Column(f"said_{place}", f"said {name}") for place, name in enumerate(study.classes)]
    rows = []
    for name, counts in zip(study.classes, found, strict=True):
        values: dict[str, Value] = {"method": name}
        values |= {f"said_{place}": float(count) for place, count in enumerate(counts)}
        rows.append(Row(values))
    notes = [f"Rows of the {study.judge}, all trials together; the diagonal is right."]
    return Table("confusion", f"What {study.reference.label} takes for what", columns, rows, notes)


def _confusion(one: Measured) -> np.ndarray[tuple[int, int], np.dtype[np.int64]] | None:
    tables = [
        np.array(told["confusion"], np.int64)
        for trial in one.series.trials
        if (told := trial.summary.details.get("splits", {}).get("holdout"))
    ]
    return sum(tables[1:], tables[0]) if tables else None


def own_rows(study: Study) -> Table | None:
    """How well every client is served: the global model on each one's own training rows."""
    usual = "r2" if study.numbers else "accuracy"
    first = next((trial.summary.details.get("clients") or {} for trial in study.reference.series.trials), {})
    names = list(first)
    if not 1 < len(names) <= MANY or study.unlike:
        return None
    shown = [study.client(place) for place in range(1, len(names) + 1)]
    columns = [METHOD]
    columns += [Column(f"own_{place}", f"{shown[place]}", 4, "max") for place in range(len(names))]
    rows = [
        Row(
            {"method": one.label}
            | {f"own_{place}": one.mean(f"{usual}_own_{name}") for place, name in enumerate(names)}
        )
        for one in study.found
    ]
    what = "R²" if study.numbers else "Accuracy"
    notes = [
        f"{what} of the last global model on the training rows of each client: whom it serves, and whom not."
    ]
    return Table("own_rows", "Each client's own rows", columns, rows, notes)
