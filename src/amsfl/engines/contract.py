"""What the federation asks of an engine, and the records that pass between them.

Trials are a batch axis everywhere: a plain run is one trial.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from amsfl.core import Reading, Upload
from amsfl.core.records import Number

Array = Any


class State(NamedTuple):
    """All that the next round needs. Method state is an empty vector where a method has none."""

    anchor: Array  # [trials, dim]
    server: Array  # [trials, server state]
    client: Array  # [trials, clients, client state]
    memory: Array  # [trials, clients, what a client remembers of its transmissions]
    step: Array  # [trials, dim] the last global step: the direction that readings compare with


class Orders(NamedTuple):
    """What every client of every cohort is to do. A trial whose steps are all 0 stands still."""

    cohort: Array  # int [trials, cohort] client numbers
    steps: Array  # int [trials, cohort]
    lr: Array  # float [trials]
    weights: Array  # float [trials, cohort] shares of ALL clients' data
    lr_known: Array = 1.0  # float [trials] or one for all; 0: `lr` is the part of their own that clients take
    attackers: Array = 0  # int [trials, cohort] or 0: who attacks, by which of the method's attacks from 1
    words: Array = 0  # uint32 [trials, cohort] or 0: random words that attackers make their noise of
    largest: Array = 0  # float [trials] or 0: the largest weight of all clients, where these are kept private


class Outcome(NamedTuple):
    readings: Reading  # each field [trials, cohort], on the host; zeros when not taken
    deltas: Array | None  # [trials, cohort, dim] local models minus anchor, when asked for
    weighed: dict[str, Array]  # [trials, cohort] how much each counts after each link of a rule


class JobStarts(NamedTuple):
    """What jobs begin from, each from its own: [jobs, ...]. As State, one row a job."""

    anchor: Array
    server: Array  # what clients see of it
    client: Array
    memory: Array
    step: Array


class Jobs(NamedTuple):
    """Local rounds to compute, [jobs], of any trials; 0 steps: an empty place."""

    trial: Array  # int
    client: Array  # int
    steps: Array  # int
    lr: Array
    lr_known: Array  # 1, or 0 where there is no lr yet
    number: Array  # int, seeds the minibatches


class JobResults(NamedTuple):
    """What jobs came to, [jobs, ...] on the host."""

    upload: Upload
    client: Array
    memory: Array
    readings: Reading  # each field [jobs]; zeros when not taken


class Engine(Protocol):
    max_span: int  # rounds at most that are worth planning before the first of them is run (`span`)
    needs_all_processes: bool  # no process has all of a state: all have to ask for it (`to_host`)

    def start(self) -> State: ...

    def from_host(self, state: State) -> State:
        """A state from elsewhere (a checkpoint's numpy arrays) as this engine keeps it."""
        ...

    def to_host(self, state: State) -> State:
        """`from_host` backwards: numpy arrays."""
        ...

    def models_to_host(self, models: Array) -> Array:
        """Parameter vectors of this engine's as numpy arrays, layer after layer."""
        ...

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        """One round of local work and aggregation; `number` counts from 0 and seeds the sampling."""
        ...

    def revise(self, state: State, verdicts: Array) -> State:
        """The state after the judge's verdicts on the last round, one a trial (core.Verdict)."""
        ...

    def span(
        self, state: State, orders: Sequence[Orders], number: int, keep: bool = False
    ) -> tuple[State, list[Outcome]]:
        """Several rounds one after another: the states after each of them, [rounds, ...], and their outcomes.

        There may be more states than rounds; those say nothing.
        """
        ...

    def at(self, states: State, index: int) -> State:
        """One of the states that `span` returned."""
        ...

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        """Local rounds alone, each from its own start: what becomes of them is the caller's to settle."""
        ...

    def models(self, state: State) -> Array:
        """What is scored and kept of a trial, [trials, dim] (Method.model), in each of `span`'s states."""
        ...

    def client_models(self, state: State, deltas: Array, trial: int) -> Array:
        """A trial's clients' own models, [cohort, dim], after the round that left this state and deltas."""
        ...

    def evaluate(self, models: Array, split: str, places: Sequence[int] | None = None) -> "Scores":
        """Scores of [models, dim] parameter vectors, this engine's or numpy's, or of some of them."""
        ...


def rows(part: Array) -> Array:
    """[..., n] as [rows, n]: the states of several rounds are so many more."""
    return part.reshape(int(np.prod(part.shape[:-1])), part.shape[-1])


def own_models(anchor: Array, step: Array, deltas: Array, trial: Number) -> Array:
    return (anchor[trial] - step[trial]) + deltas[trial]


class Errors(NamedTuple):
    """Of predicted numbers, in the user's own units."""

    absolute: Array  # [models] mean |error|
    squared: Array  # [models] mean error^2
    spread: float  # of the split's own values about their mean, squared


class Scores(NamedTuple):
    loss: Array  # [models] the mean over rows, classes unweighted, numbers standardised
    confusion: Array  # int [models, classes, classes] true class by predicted class
    errors: Errors | None = None  # of numbers, which have no confusion


def metrics(scores: Scores) -> list[dict[str, Any]]:
    """Of every model accuracy, loss and macro-F1, precision, recall and F1 by class; R² and errors of others.

    A class with no rows in the split has recall and F1 None and stays out of the mean F1; one that is never
    predicted has no precision.
    """
    losses = np.asarray(scores.loss).tolist()
    if scores.errors is not None:
        return [_errors(scores.errors, index) | {"loss": loss} for index, loss in enumerate(losses)]
    table = np.asarray(scores.confusion, np.int64)
    hits, true, guessed = np.diagonal(table, axis1=-2, axis2=-1), table.sum(-1), table.sum(-2)
    present = true > 0
    f1 = 2 * hits / np.maximum(true + guessed, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "accuracy": (hits.sum(-1) / table.sum((-2, -1))).tolist(),
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


def _errors(errors: Errors, index: int) -> dict[str, Any]:
    """None where a number does not exist: R² of values that are all the same, anything of a lost model."""
    absolute, squared = float(errors.absolute[index]), float(errors.squared[index])
    with np.errstate(over="ignore", invalid="ignore"):
        values = {
            "r2": 1 - squared / errors.spread if errors.spread else np.nan,
            "mae": absolute,
            "rmse": squared**0.5,
        }
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}
