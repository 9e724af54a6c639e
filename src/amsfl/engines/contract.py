"""What a round asks of an engine, and what passes between them: numpy's arrays, one trial's each; scores."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from amsfl.core import Upload
from amsfl.core.records import Array, Json
from amsfl.engines.devices import on_cpu
from amsfl.engines.models import is_dense, tensors
from amsfl.engines.task import Task
from amsfl.methods import Federation
from amsfl.portable.network import logits

BLOCK = 4096  # rows at once: the widest activations stay in the cache
Forward = Callable[[Array, Array], Array]  # parameters [dim], features -> [rows, classes]


def table_scores(losses: Array, tables: Array) -> list[Json]:
    """Of every model accuracy, loss and macro-F1, precision, recall and F1 by class; `tables` are
    its rows by true class and predicted class.

    A class with no rows in the split has recall and F1 None and stays out of the mean F1; one that is never
    predicted has no precision.
    """
    hits, true, guessed = np.diagonal(tables, axis1=-2, axis2=-1), tables.sum(-1), tables.sum(-2)
    present = true > 0
    f1 = 2 * hits / np.maximum(true + guessed, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "accuracy": (hits.sum(-1) / true.sum(-1)).tolist(),
            "loss": losses.tolist(),
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


def number_scores(
    losses: Array, absolute: Array, squared: Array, spread: float, unit: float = 1.0
) -> list[Json]:
    """Of every model R² and mean errors in the user's own `unit`, from those of standardised numbers and the
    square of their spread about the mean.

    None where a number does not exist: R² of values that are all the same, anything of a lost model.
    """
    found = []
    for loss, off, off_sq in zip(losses.tolist(), absolute.tolist(), squared.tolist(), strict=True):
        values = {
            "r2": 1 - off_sq / spread if spread else np.nan,
            "mae": off * unit,
            "rmse": off_sq**0.5 * unit,
        }
        found.append(
            {name: value if np.isfinite(value) else None for name, value in values.items()} | {"loss": loss}
        )
    return found


def outputs(task: Task) -> Forward:
    """A network's outputs: (parameters, rows) -> [rows, classes].

    On a CPU dense networks are numpy's, so that nothing is compiled for one look.
    """
    layers = task.model.layers
    if is_dense(layers) and on_cpu():

        def block(params: Array, rows: Array) -> Array:
            return logits(layers, tensors(task.model, task.unravel(params)), rows)

    else:
        import jax

        block = jax.jit(lambda params, rows: task.model.apply(task.unravel(params), rows))

    def forward(params: Array, x: Array) -> Array:
        params, size = np.asarray(params, task.dtype), min(BLOCK, len(x))
        parts = [block(params, filled(x[at : at + size], size)) for at in range(0, len(x), size)]
        return np.concatenate(parts)[: len(x)]

    return forward


def filled(part: Array, rows: int) -> Array:
    """With zeros behind it."""
    if len(part) == rows:
        return part
    return np.concatenate([part, np.zeros((rows - len(part), *part.shape[1:]), part.dtype)])


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
    readings: Array  # [jobs, fields of a Reading]; no fields when not taken


MOST = 128  # rounds of one call: what Python does between two calls is then little beside them


class Vectors(NamedTuple):
    """All of one trial's: the server's, and [clients, ...] the clients'."""

    anchor: Array
    server: Array
    step: Array  # the last global one
    client: Array
    kept: Array


class Ahead(NamedTuple):
    """One trial's next rounds, where nothing of one decides the next; [rounds, jobs] as a Work's are."""

    trial: int
    vectors: Vectors
    begin: Array  # [jobs]
    client: Array
    steps: Array
    lr: Array
    number: Array
    shares: Array
    weights: Array  # the jobs' shares of all data


class Engine(Protocol):
    task: Task
    federation: Federation

    @property
    def ahead(self) -> Callable[[Sequence[Ahead]], list[Vectors]] | None:
        """What each trial's vectors are after its rounds; None: rounds go one by one."""

    def work(self, asked: Sequence[Work]) -> list[Results]:
        """What clients do in a round, of as many trials as ask: each as it would come out alone."""

    def evaluate(self, models: Array, split: str) -> list[Json]:
        """Scores of [models, dim] parameter vectors."""
