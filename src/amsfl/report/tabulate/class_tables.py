"""Scores of every class and the confusion matrix: what a mean over all rows hides."""

import numpy as np

from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject
from amsfl.report.tabulate.table import METHOD, ReportTable, TableColumn, TableRow

LARGE = 20  # classes; a larger confusion matrix cannot be read


def recall(subject: Subject) -> ReportTable | None:
    """Accuracy hides rare classes; recall of each class does not."""
    splits, names = subject.splits, subject.classes
    if not names:
        return None
    columns = [
        TableColumn(f"{split}_{name}", f"{name}, {title}", 3, "max")
        for split, title in splits
        for name in names
    ]
    cells = {f"{split}_{name}": f"recall_{split}_{i}" for split, _ in splits for i, name in enumerate(names)}
    rows = [
        TableRow({"method": one.label, **{key: one.mean(measure) for key, measure in cells.items()}})
        for one in subject.methods
    ]
    note = "The share of a class's rows that is predicted right."
    return ReportTable("recall", "Recall of every class", [METHOD, *columns], rows, [note])


def classes(subject: Subject) -> ReportTable | None:
    """Precision, recall, F1 and AUC of every class, method by method."""
    heads = {"precision": "Precision", "recall": "Recall", "f1": "F1", "auc": "AUC"}
    places = range(len(subject.classes))
    if not any(one.numbers(f"auc_holdout_{place}") for one in subject.methods for place in places):
        return None
    columns = [METHOD, TableColumn("class", "Class")]
    columns += [TableColumn(key, head, 3) for key, head in heads.items()]
    rows = [
        TableRow(
            {"method": one.label, "class": name, **{key: one.mean(f"{key}_holdout_{i}") for key in heads}}
        )
        for one in subject.methods
        for i, name in enumerate(subject.classes)
    ]
    note = (
        f"On the {subject.judged_on}. Precision: of rows predicted as the class, the share that is of it. "
        "Recall: of its rows, the share predicted as it. F1: their harmonic mean. AUC: the chance that a row "
        "of the class is ranked above another one. A dash: the class has no rows, or was never predicted."
    )
    return ReportTable("classes", "Every class by itself", columns, rows, [note])


def confusion(subject: Subject) -> ReportTable | None:
    """Of the reference, all trials added up."""
    splits = [t.summary.details.get("splits", {}).get("holdout") for t in subject.reference.series.trials]
    tables = [np.array(each["confusion"], np.int64) for each in splits if each and each["confusion"]]
    if not tables or not 1 < len(tables[0]) <= LARGE or len(tables[0]) != len(subject.classes):
        return None
    counts = sum(tables[1:], tables[0])
    columns = [TableColumn("method", "True class")]
    columns += [TableColumn(f"said_{place}", f"as {name}") for place, name in enumerate(subject.classes)]
    rows = [
        TableRow({"method": name, **{f"said_{place}": float(value) for place, value in enumerate(row)}})
        for name, row in zip(subject.classes, counts, strict=True)
    ]
    note = f"Rows of the {subject.judged_on} by predicted class, all trials together; the diagonal is right."
    return ReportTable("confusion", f"Confusion matrix of {subject.reference.label}", columns, rows, [note])


def importance(subject: Subject) -> ReportTable | None:
    """What each method's model goes by: the score lost where a column is shuffled, a mean over trials."""
    lost = {one.label: _lost(one) for one in subject.methods}
    by_reference = lost[subject.reference.label]
    if not by_reference:
        return None
    names = sorted(by_reference, key=lambda name: -by_reference[name])[:LARGE]
    columns = [TableColumn("method", "Column")]
    columns += [TableColumn(f"lost_{nth}", label, 4) for nth, label in enumerate(lost)]
    rows = [
        TableRow({"method": name, **{f"lost_{n}": by.get(name) for n, by in enumerate(lost.values())}})
        for name in names
    ]
    details = subject.reference.series.trials[0].summary.details
    score = details["importance"][0]["score"].replace("r2", "R²")
    note = (
        f"The {score} that a model loses on rows of the hold-out where the column is shuffled among them; "
        "at or below 0, it does without the column."
    )
    return ReportTable("importance", "Which columns count", columns, rows, [note])


def _lost(one: MeasuredSeries) -> dict[str, float]:
    by_column: dict[str, list[float]] = {}
    for trial in one.series.trials:
        for row in trial.summary.details.get("importance") or []:
            by_column.setdefault(row["column"], []).append(row["lost"])
    return {name: float(np.mean(values)) for name, values in by_column.items()}
