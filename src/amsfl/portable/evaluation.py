"""How good a model is on rows whose answers are known, and which of their columns it goes by.

Metrics are scikit-learn's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.core.scores import UNBALANCED
from amsfl.data.labels import class_places, parse_label_numbers
from amsfl.data.raw_table import RawTable
from amsfl.data.read_column import means_gap
from amsfl.data.read_table import open_rows
from amsfl.data.recipe import Recipe
from amsfl.portable.model import PortableModel
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
    score: str  # accuracy, AUC or r2


def has_labels(model: PortableModel, table: RawTable) -> bool:
    """Whether the table has the column that the model predicts, with something in it."""
    recipe = model.recipe
    if recipe is None or recipe.label not in table.columns:
        return False
    return not means_gap(recipe.label_column, table).all()


def evaluate(model: PortableModel, rows: Any) -> Evaluation:
    """Score a model on a table that has its label column.

    Args:
        model: Of `amsfl.portable.load`.
        rows: A file, a data frame or a dict of raw columns, the label among them.

    Returns:
        Scores, the base rate, and the calibration curve of classes.
    """
    _, table, answers = _labelled(model, rows)
    return _score(model, model.logits(table), answers)


def explain(model: PortableModel, rows: Any, repeats: int = REPEATS, seed: int = 0) -> list[Importance]:
    """Permutation importance of every raw column, the most important first.

    Args:
        model: Of `amsfl.portable.load`.
        rows: A table with the label column, as in `evaluate`.
        repeats: Shuffles of each column.
        seed: Of the shuffles.

    Returns:
        What is lost of `explained_score` where a column is shuffled within each client's rows.
    """
    recipe, table, answers = _labelled(model, rows)
    client, name = table.columns.get(recipe.client), explained_score(model, answers)
    owners = client.codes if client is not None else np.zeros(table.rows, np.int32)

    def score(x: Array) -> float:
        return _score(model, model.logits(x), answers).scores[name]

    return permutation_importance(name, score, model.encode(table), recipe, owners, repeats, seed)


def explained_score(model: PortableModel, answers: Array) -> str:
    """R² of numbers; accuracy, or where most rows are of one class AUC."""
    if not model.classes:
        return "r2"
    shares = np.bincount(answers) / len(answers)
    return "AUC" if UNBALANCED <= shares.max() < 1 else "accuracy"


def _labelled(model: PortableModel, rows: Any) -> tuple[Recipe, RawTable, Array]:
    """The recipe, rows that have a label, and their labels: class numbers, or numbers in their own units."""
    table = open_rows(rows)
    recipe, label = model.recipe, model.recipe.label if model.recipe else ""
    if recipe is None or not has_labels(model, table):
        raise UserError(
            f"{table.name} has no column {label!r} with the answers, so nothing can be scored; add it, or "
            "predict alone: amsfl predict."
        )
    table = table.filter(~means_gap(recipe.label_column, table))
    cells = table.columns[label]
    if not model.classes:
        numbers = parse_label_numbers(table, label)[0]
        if np.isnan(numbers).any():
            row = int(np.argmax(np.isnan(numbers)))
            raise UserError(
                f"{table.name}, line {table.lines[row]}: {table.cell(label, row)!r} is no number."
            )
        return recipe, table, numbers
    place = class_places(model.classes, cells.words)
    unknown = [word for word in cells.words if word not in place]
    if unknown:
        known = ", ".join(model.classes)
        raise UserError(f"{table.name} has the class {unknown[0]!r}; the model knows {known}.")
    return recipe, table, np.array([place[word] for word in cells.words])[cells.codes]


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
    over_present: dict[str, Any] = {"labels": present, "average": "macro", "zero_division": 0}
    measures: dict[str, Callable[[Array, Array], float]] = {
        "accuracy": metrics.accuracy_score,
        "balanced accuracy": partial(metrics.recall_score, **over_present),
        "macro-F1": partial(metrics.f1_score, **over_present),
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


def permutation_importance(
    name: str,
    score: Callable[[Array], float],
    x: Array,
    recipe: Recipe,
    owners: Array,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Importance]:
    """Of every raw column, the most important first.

    A column's features are moved together, which is the same as moving its raw cells; rows change places with
    rows of their own owner alone, so no row leaves its client for it.
    """
    before, importances, start = score(x), [], 0
    for column in recipe.columns:
        span = slice(start, start + len(column.features))
        start = span.stop
        rng = np.random.default_rng([seed, *column.name.encode()])
        moved, lost = x.copy(), []
        for _ in range(repeats):
            moved[:, span] = x[_shuffle_within(owners, rng), span]
            lost.append(before - score(moved))
        importances.append(Importance(column.name, float(np.mean(lost)), float(np.std(lost)), name))
    return sorted(importances, key=lambda each: -each.lost)


def _shuffle_within(owners: Array, rng: np.random.Generator) -> Array:
    order = np.argsort(owners, kind="stable")
    shuffled = np.empty_like(order)
    shuffled[order] = order[np.lexsort((rng.random(len(order)), owners[order]))]
    return shuffled
