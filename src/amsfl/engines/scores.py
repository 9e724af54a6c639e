"""Scores of models on a split: their losses, confusion or errors, and the metrics made of these."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl.core.records import Array, Json
from amsfl.engines.numpy_network import loss_and_slope
from amsfl.engines.task import Task


class Errors(NamedTuple):
    """Of predicted numbers, in the user's own units."""

    absolute: Array  # [models] mean |error|
    squared: Array  # [models] mean error^2
    spread: float  # of the split's own values about their mean, squared


class Scores(NamedTuple):
    loss: Array  # [models] the mean over rows, classes unweighted, numbers standardised
    confusion: Array  # int [models, classes, classes] true class by predicted class
    errors: Errors | None = None  # of numbers, which have no confusion


def metrics(scores: Scores) -> list[Json]:
    """Of every model accuracy, loss and macro-F1, precision, recall and F1 by class; R² and errors of others.

    A class with no rows in the split has recall and F1 None and stays out of the mean F1; one that is never
    predicted has no precision.
    """
    losses = np.asarray(scores.loss).tolist()
    if scores.errors is not None:
        return [_errors(scores.errors, index) | {"loss": loss} for index, loss in enumerate(losses)]
    table = np.asarray(scores.confusion, np.int64)
    return class_metrics(np.diagonal(table, axis1=-2, axis2=-1), table.sum(-1), table.sum(-2), losses)


def class_metrics(hits: Array, true: Array, guessed: Array, losses: Sequence[float]) -> list[Json]:
    """From each model's rows by class [models, classes]: predicted right, of the class, predicted as it."""
    present = true > 0
    f1 = 2 * hits / np.maximum(true + guessed, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "accuracy": (hits.sum(-1) / true.sum(-1)).tolist(),
            "loss": losses,
            "macro_f1": [float(row[here].mean()) for row, here in zip(f1, present, strict=True)],
            "recall": _known(hits / true, present),
            "precision": _known(hits / guessed, guessed > 0),
            "f1": _known(f1, present),
        }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _known(values: Array, present: Array) -> list[list[float | None]]:
    """Numbers as a record has them, None where there is none."""
    if present.all():
        return list(values.tolist())
    return [
        [each if present else None for each, present in zip(*row, strict=True)]
        for row in zip(values.tolist(), present.tolist(), strict=True)
    ]


def _errors(errors: Errors, index: int) -> Json:
    """None where a number does not exist: R² of values that are all the same, anything of a lost model."""
    absolute, squared = float(errors.absolute[index]), float(errors.squared[index])
    with np.errstate(over="ignore", invalid="ignore"):
        values = {
            "r2": 1 - squared / errors.spread if errors.spread else np.nan,
            "mae": absolute,
            "rmse": squared**0.5,
        }
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}


def score_logits(task: Task, split: str, outputs: Sequence[Array]) -> Scores:
    """Scores of each model's outputs on a split, in numpy: the reference engine's."""
    y = task.evals[split][1]
    loss = [loss_and_slope(task.scored, each, y)[0].mean(dtype=np.float64) for each in outputs]
    if not task.classes:
        wrong = [each[:, 0].astype(np.float64) - y for each in outputs]
        means = np.array([(np.abs(error).mean(), (error**2).mean()) for error in wrong])
        return Scores(np.array(loss), None, errors(task, split, *means.T))
    cells = [np.bincount(y * task.classes + each.argmax(-1), minlength=task.classes**2) for each in outputs]
    return Scores(np.array(loss), np.stack(cells).reshape(-1, task.classes, task.classes))


def errors(task: Task, split: str, absolute: Array, squared: Array) -> Errors:
    """Mean errors of standardised numbers in the user's own units."""
    spread = float(np.var(np.asarray(task.evals[split][1], np.float64)))
    return Errors(absolute * task.unit, squared * task.unit**2, spread * task.unit**2)
