"""How good a model is on rows whose answers are known, and which of their columns it goes by.

Metrics are scikit-learn's. Importance is the score that is lost where one raw column is shuffled, within each
client's own rows: no row leaves its client for it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.data.labels import parse_label_numbers
from amsfl.data.read_table import RawTable
from amsfl.portable.model import PortableModel, open_rows
from amsfl.portable.network import Array

BINS = 10  # of the calibration curve
REPEATS = 5  # shuffles of a column


class CalibrationBin(NamedTuple):
    """Rows whose prediction is about as sure."""

    rows: int
    confidence: float  # mean probability of the predicted class
    accuracy: float


class Evaluation(NamedTuple):
    """Scores by name, what always saying the same would score, and how honest probabilities are."""

    rows: int
    scores: dict[str, float]
    baseline: dict[str, float]
    calibration: tuple[CalibrationBin, ...] = ()


class Importance(NamedTuple):
    """The score that is lost without a column."""

    column: str
    lost: float
    deviation: float  # over the shuffles


def has_labels(model: PortableModel, table: RawTable) -> bool:
    """Whether the table has the column that the model predicts, with something in it."""
    cells = table.columns.get(model.recipe.label) if model.recipe else None
    return cells is not None and not cells.gaps.all()


def evaluate(model: PortableModel, rows: Any) -> Evaluation:
    """Score a model on a table that has its label column.

    Args:
        model: Of `amsfl.portable.load`.
        rows: A file, a data frame or a dict of raw columns, the label among them.

    Returns:
        Scores, the base rate, and the calibration curve of classes.
    """
    table, answers = _labelled(model, rows)
    return _score(model, model.logits(table), answers)


def explain(model: PortableModel, rows: Any, repeats: int = REPEATS, seed: int = 0) -> list[Importance]:
    """Permutation importance of every raw column, the most important first.

    Args:
        model: Of `amsfl.portable.load`.
        rows: A table with the label column, as in `evaluate`.
        repeats: Shuffles of each column.
        seed: Of the shuffles.

    Returns:
        The accuracy (of numbers: R²) that is lost where a column is shuffled within each client's rows.
    """
    table, answers = _labelled(model, rows)
    name = "accuracy" if model.classes else "r2"
    before = _score(model, model.logits(table), answers).scores[name]
    if model.recipe is None:
        raise UserError("This model has no raw columns to shuffle: it was trained on features as they are.")
    client = table.columns.get(model.recipe.client)
    owners = client.codes if client is not None else np.zeros(table.rows, np.int32)
    importances = []
    for column in model.recipe.columns:
        rng = np.random.default_rng([seed, *column.name.encode()])
        lost = []
        for _ in range(repeats):
            order = _shuffle_within(owners, rng)
            cells = table.columns[column.name]
            shuffled = cells.take(order)
            moved = table._replace(columns=table.columns | {column.name: shuffled})
            lost.append(before - _score(model, model.logits(moved), answers).scores[name])
        importances.append(Importance(column.name, float(np.mean(lost)), float(np.std(lost))))
    return sorted(importances, key=lambda each: -each.lost)


def _shuffle_within(owners: Array, rng: np.random.Generator) -> Array:
    order = np.arange(len(owners))
    for owner in np.unique(owners):
        mine = np.flatnonzero(owners == owner)
        order[mine] = rng.permutation(mine)
    return order


def _labelled(model: PortableModel, rows: Any) -> tuple[RawTable, Array]:
    """The rows that have a label, and their labels: class numbers, or numbers in their own units."""
    table = open_rows(rows)
    label = model.recipe.label if model.recipe else ""
    if not has_labels(model, table):
        raise UserError(
            f"{table.name} has no column {label!r} with the answers, so nothing can be scored; add it, or "
            "predict alone: amsfl predict."
        )
    labelled = ~table.columns[label].gaps
    columns = {name: cells.filter(labelled) for name, cells in table.columns.items()}
    lines = [line for line, good in zip(table.lines, labelled.tolist(), strict=True) if good]
    table = table._replace(columns=columns, lines=lines)
    cells = table.columns[label]
    if not model.classes:
        numbers = parse_label_numbers(cells, table.commas)[0]
        if np.isnan(numbers).any():
            row = int(np.argmax(np.isnan(numbers)))
            raise UserError(f"{table.name}, line {lines[row]}: {table.cell(label, row)!r} is no number.")
        return table, numbers
    place = {name: nth for nth, name in enumerate(model.classes)}
    unknown = [word for word in cells.words if word not in place]
    if unknown:
        choices = ", ".join(model.classes)
        raise UserError(f"{table.name} has the class {unknown[0]!r}; the model knows {choices}.")
    return table, np.array([place[word] for word in cells.words])[cells.codes]


def _score(model: PortableModel, outputs: Array, answers: Array) -> Evaluation:
    if model.classes:
        return _score_classes(model.chances(outputs), answers)
    predicted = model.named(outputs)
    constant = np.full(len(answers), (model.amount or (0.0, 1.0))[0])
    return Evaluation(len(answers), _number_scores(answers, predicted), _number_scores(answers, constant))


def _number_scores(answers: Array, predicted: Array) -> dict[str, float]:
    from sklearn import metrics

    return {
        "r2": float(metrics.r2_score(answers, predicted)) if len(answers) > 1 else float("nan"),
        "mae": float(metrics.mean_absolute_error(answers, predicted)),
        "rmse": float(metrics.root_mean_squared_error(answers, predicted)),
    }


def _score_classes(chances: Array, answers: Array) -> Evaluation:
    from sklearn import metrics

    predicted, present = chances.argmax(axis=1), np.unique(answers)
    measures: dict[str, Callable[[Array, Array], float]] = {
        "accuracy": metrics.accuracy_score,
        "balanced accuracy": metrics.balanced_accuracy_score,
        "macro-F1": lambda y, p: metrics.f1_score(y, p, labels=present, average="macro", zero_division=0),
    }
    scores = {name: float(measure(answers, predicted)) for name, measure in measures.items()}
    commonest = np.full(len(answers), np.bincount(answers).argmax())
    baseline = {name: float(measure(answers, commonest)) for name, measure in measures.items()}
    if len(present) > 1:
        each = [metrics.roc_auc_score(answers == nth, chances[:, nth]) for nth in present]
        scores["AUC"], baseline["AUC"] = float(np.mean(each)), 0.5
    scores["log loss"] = float(metrics.log_loss(answers, chances, labels=np.arange(chances.shape[1])))
    bins = _calibrate(chances.max(axis=1), predicted == answers)
    return Evaluation(len(answers), scores, baseline, bins)


def _calibrate(confidence: Array, right: Array) -> tuple[CalibrationBin, ...]:
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = (place == nth for nth in range(BINS))
    return tuple(
        CalibrationBin(int(mask.sum()), float(confidence[mask].mean()), float(right[mask].mean()))
        for mask in bins
        if mask.any()
    )
