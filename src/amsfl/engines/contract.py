"""What the federation asks of an engine, and the records that pass between them.

Trials are a batch axis everywhere: a plain run is one trial.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from amsfl.core import Reading, Upload
from amsfl.core.records import Array, Number
from amsfl.engines.scores import Scores


class State(NamedTuple):
    """All that the next round needs. Method state is an empty vector where a method has none."""

    anchor: Array  # [trials, dim]
    server: Array  # [trials, server state]
    client: Array  # [trials, clients, client state]
    memory: Array  # [trials, clients, what a client remembers of its transmissions]
    step: Array  # [trials, dim] the last global step: the direction that readings compare with
    history: Array  # [trials, clients, what a robust rule remembers of each]


class Orders(NamedTuple):
    """What every client of every cohort is to do. A trial whose steps are all 0 stands still."""

    cohort: Array  # int [trials, cohort] client numbers
    steps: Array  # int [trials, cohort]
    lr: Array  # float [trials]
    weights: Array  # float [trials, cohort] shares of ALL clients' data
    attackers: Array = 0  # int [trials, cohort] or 0: who attacks, by which of the method's attacks from 1
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
    number: Array  # int, seeds the minibatches


class JobResults(NamedTuple):
    """What jobs came to, [jobs, ...] on the host."""

    upload: Upload
    client: Array
    memory: Array
    readings: Reading  # each field [jobs]; zeros when not taken


class Engine(Protocol):
    needs_all_processes: bool  # no process has all of a state: all have to ask for it (`to_host`)

    def start(self) -> State: ...

    def from_host(self, state: State) -> State:
        """A state from elsewhere (a checkpoint's numpy arrays) as this engine keeps it."""

    def to_host(self, state: State) -> State:
        """`from_host` backwards: numpy arrays."""

    def models_to_host(self, models: Array) -> Array:
        """Parameter vectors of this engine's as numpy arrays, layer after layer."""

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        """One round of local work and aggregation; `number` counts from 0 and seeds the sampling."""

    def revise(self, state: State, verdicts: Array) -> State:
        """The state after the judge's verdicts on the last round, one a trial (core.Verdict)."""

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        """Local rounds alone, each from its own start: what becomes of them is the caller's to settle."""

    def models(self, state: State) -> Array:
        """What is scored and kept of a trial, [trials, dim] (Method.model)."""

    def client_models(self, state: State, deltas: Array, trial: int) -> Array:
        """A trial's clients' own models, [cohort, dim], after the round that left this state and deltas."""

    def evaluate(self, models: Array, split: str, places: Sequence[int] | None = None) -> Scores:
        """Scores of [models, dim] parameter vectors, this engine's or numpy's, or of some of them."""


def as_reading(fields: Array, shape: tuple[int, ...]) -> Reading:
    """What a program returned of readings, [fields, ...]; zeros of that shape where none were taken."""
    return Reading(*(np.asarray(fields) if fields.size else np.zeros((len(Reading._fields), *shape))))


def own_models(anchor: Array, step: Array, deltas: Array, trial: Number) -> Array:
    return (anchor[trial] - step[trial]) + deltas[trial]
