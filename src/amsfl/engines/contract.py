"""What a round asks of an engine, and the records that pass between them: numpy's, one trial's each."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from amsfl.core import Reading, Upload
from amsfl.core.records import Array
from amsfl.engines.scores import Scores
from amsfl.engines.task import Task
from amsfl.methods import Method


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
    method: Method

    def work(self, asked: Sequence[Work]) -> list[Results]:
        """What clients do in a round, of as many trials as ask: each as it would come out alone."""

    def evaluate(self, models: Array, split: str) -> Scores:
        """Scores of [models, dim] parameter vectors."""


def as_readings(fields: Array) -> Reading:
    """Of [jobs, fields]; zeros where none were taken."""
    return Reading(*(fields.T if fields.size else np.zeros((len(Reading._fields), len(fields)))))
