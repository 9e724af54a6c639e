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
    """What the server aggregates: the cohort's uploads, mixed and summed, and means of their readings.

    `way_begin` and `way_end` are means over those clients of the cohort that were in the round before: how
    steeply their loss fell along the last global step v where it began and where it ended. `ways` is their
    share of the cohort's weight; 0 for methods that do not search along v. `square` is ||delta||^2 where
    `delta` is a piece of the whole vector, else None.
    """

    delta: Array
    extra: Array
    delta_sq: Array
    way_begin: Array = 0.0
    way_end: Array = 0.0
    ways: Array = 0.0
    square: Array | None = None


class Reading(NamedTuple):
    """Gradient-difference (GDA) scalars of one client in one round, on its first minibatch, and five more.

    g is the gradient at the anchor, dg the change of that same minibatch's gradient after the
    local steps, delta the displacement, v the last global step (the direction all clients share).
    g_seen is g of the round before.
    """

    loss: Array  # loss of the minibatch at the anchor
    grad_sq: Array  # ||g||^2
    diff_sq: Array  # ||dg||^2
    delta_sq: Array  # ||delta||^2
    grad_diff: Array  # <g, dg>
    grad_delta: Array  # <g, delta>
    grad_dir: Array  # <g, v>
    diff_dir: Array  # <dg, v>
    delta_dir: Array  # <delta, v>
    held_loss: Array  # loss at the anchor of the rows that the client holds back; NaN: it holds none back
    spread: Array  # how much outputs differ from held-back row to row; 1 where nobody looks, NaN: no such row
    way_begin: Array  # -<g_seen, v>; NaN where the client was not in the round before. At its end: -<g, v>
    opening: Array  # the longest step of this round, which the client may have set itself
    length: Array = 0.0  # the lengths of its steps added up, where clients correct each other's drift; else 0


class Verdict(IntEnum):
    """What the judge says of a round (drift/judge.py)."""

    NONE = 0
    BETTER = 1  # no anchor was better: it is the one to go back to
    BACK = 2  # clearly worse, or not finite: back to the best anchor
    RESTART = 3  # a network that says the same of every row: from the first model again
    BRANCH = 4  # it went back often: with care from the first model, scored only once it is better


class Plan(NamedTuple):
    """Steps for every client of the cohort, the seconds that they take, and why."""

    steps: Array  # int, one per client of the problem
    seconds: float  # of the round, by the problem's clock
    why: tuple[str, ...]  # per client, what stopped it: budget, rate, cap, fixed
