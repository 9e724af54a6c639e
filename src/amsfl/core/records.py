"""What a client sends, what it measures, and what the server plans.

The same records carry numpy, jax and torch arrays, so the names of their types only say what is meant.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

Array = Any  # of numpy, jax or torch
Number = Any  # a float, or an array without axes
Tree = Any  # arrays in nested tuples, as a network's parameters are
Json = dict[str, Any]  # as JSON and TOML hold it: settings, scores, records
JsonMapping = Mapping[str, Any]  # the same, to look at


class Upload(NamedTuple):
    """What a client sends up.

    `extra` is a second model-sized vector for methods that need one, `x[:0]` otherwise;
    `delta_sq` is ||delta||^2, one scalar, which server step rules such as FedExP need.
    """

    delta: Array
    extra: Array
    delta_sq: Array


class Total(NamedTuple):
    """What the server aggregates: the cohort's uploads, mixed and summed.

    `age` is how often the server had moved since this work began, on average; 0 in synchronous rounds.
    """

    delta: Array
    extra: Array
    delta_sq: Array
    age: Array = 0.0


class Reading(NamedTuple):
    """Gradient-difference (GDA) scalars of one client in one round, on its first minibatch.

    g is its gradient at the anchor, dg how the same minibatch's gradient changed over the local steps. The
    client sends all but the last two: delta is its upload as it arrived, v the last global step, and the
    server has both.
    """

    loss: Array  # of the minibatch at the anchor
    grad_sq: Array  # ||g||^2; 0: the client takes no readings
    grad_diff: Array  # <g, dg>
    diff_sq: Array  # ||dg||^2
    held_loss: Array  # loss at the anchor of the rows that the client holds back; NaN: it holds none back
    spread: Array  # how much outputs differ from held-back row to row; NaN: no such row
    delta_sq: Array = 0.0  # ||delta||^2
    delta_dir: Array = 0.0  # <delta, v>


class Verdict(IntEnum):
    """What the judge says of a round (planning/judge.py)."""

    NONE = 0
    BETTER = 1  # no anchor was better: it is the one to go back to
    BACK = 2  # clearly worse, or not finite: back to the best anchor
    RESTART = 3  # a network that says the same of every row: from the first model again


class Plan(NamedTuple):
    """Steps for every client of the cohort, the seconds that they take, and why."""

    steps: Array  # int, one per client of the problem
    seconds: float  # of the round, by the problem's clock
    why: tuple[str, ...]  # per client, what stopped it: budget, rate, cap, fixed
