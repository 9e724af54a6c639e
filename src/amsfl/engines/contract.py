"""What a round asks of an engine, and what passes between them: numpy's arrays, one trial's each; scores."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from amsfl.core import Reading, Upload
from amsfl.core.records import Array, Json
from amsfl.engines.devices import on_cpu
from amsfl.engines.models import is_dense, tensors
from amsfl.engines.task import Task
from amsfl.methods import Federation
from amsfl.portable.network import logits

BLOCK = 4096  # rows at once: the widest activations stay in the cache
RowScorer = Callable[[Array], Array]  # models [m, dim] -> [m, rows]
Forward = Callable[[Array, str | None], Array]  # parameters [dim], split -> [rows, classes]


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
    numbers = values.astype(object)
    numbers[~present] = None
    return list(numbers.tolist())


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


def errors(task: Task, split: str, absolute: Array, squared: Array) -> Errors:
    """Mean errors of standardised numbers in the user's own units."""
    spread = float(np.var(np.asarray(task.evals[split][1], np.float64)))
    return Errors(absolute * task.unit, squared * task.unit**2, spread * task.unit**2)


def outputs(task: Task) -> Forward:
    """A network's outputs on a split; on the training rows where the split is None.

    On a CPU dense networks are numpy's, so that nothing is compiled for one look.
    """
    layers = task.model.layers
    if not (is_dense(layers) and on_cpu()):
        from amsfl.engines import evaluate

        return evaluate.outputs(task)

    def forward(params: Array, split: str | None) -> Array:
        named, x = tensors(task.model, task.arrays(np.asarray(params))), task.rows(split)
        return np.concatenate([logits(layers, named, x[at : at + BLOCK]) for at in range(0, len(x), BLOCK)])

    return forward


def score_rows(classes: int, said: Array, wanted: Array, every: Array) -> Array:
    """[models, rows] of their outputs: 1 where the class is right, else 0; of numbers, each row's part of R²,
    by the spread of `every` label, and -1 at least: a model that is lost is no worse than a wrong one."""
    if classes:
        return np.asarray(said.argmax(-1) == wanted, float)
    off = (said[..., 0] - wanted) ** 2 / max(float(np.var(every)), 1e-12)
    return np.asarray(1 - np.minimum(off, 2), float)


class Models(NamedTuple):
    """What jobs begin from, one row each: what the server sends, and the step that led there."""

    anchor: Array  # [models, dim]
    server: Array  # [models, ...] what clients see of the server's state
    step: Array  # [models, dim] the last global step: the direction that readings compare with


class Work(NamedTuple):
    """Local rounds of one trial's clients, each job from a model of its own; [jobs] in the cohort's order."""

    trial: int
    client: Array  # int
    steps: Array  # int, 1 at least
    lr: Array
    number: Array  # int, seeds the minibatches
    models: Models
    begin: Array  # int: which of the models a job begins from
    state: Array  # [jobs, ...] the clients' own, of methods that have one
    memory: Array  # [jobs, ...] and what they remember of their transmissions
    shares: Array | None = None  # how much each upload counts in a sum; None: uploads are wanted one by one


class Results(NamedTuple):
    """What a Work came to."""

    uploads: Upload  # their sum by `shares`, or [jobs, ...]
    state: Array  # [jobs, ...]
    memory: Array
    readings: Reading  # each field [jobs]; zeros when not taken


class Engine(Protocol):
    task: Task
    federation: Federation

    def work(self, asked: Sequence[Work]) -> list[Results]:
        """What clients do in a round, of as many trials as ask: each as it would come out alone."""

    def evaluate(self, models: Array, split: str) -> Scores:
        """Scores of [models, dim] parameter vectors."""


def as_readings(fields: Array) -> Reading:
    """Of [jobs, fields]; zeros where none were taken."""
    return Reading(*(fields.T if fields.size else np.zeros((len(Reading._fields), len(fields)))))
