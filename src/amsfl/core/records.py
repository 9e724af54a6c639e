"""What a client sends, what it measures, and what the server plans.

The same records carry numpy, jax and torch arrays, so the names of their types only say what is meant.
"""

from typing import Any, NamedTuple

Array = Any  # of numpy, jax or torch
Number = Any  # a float, or an array without axes
Tree = Any  # arrays in nested tuples, as a network's parameters are


class Upload(NamedTuple):
    """What a client sends up.

    `extra` is a second model-sized vector for methods that need one, `x[:0]` otherwise;
    `delta_sq` is ||delta||^2, one scalar, which server step rules such as FedExP need.
    """

    delta: Array
    extra: Array
    delta_sq: Array


class Total(NamedTuple):
    """What the server aggregates: the cohort's uploads, mixed and summed, and the loss that they began with.

    `loss` is the mean over the cohort of the first minibatches' losses at the anchor, by weight; 0 where
    clients take no readings.
    """

    delta: Array
    extra: Array
    delta_sq: Array
    loss: Array = 0.0


class Reading(NamedTuple):
    """Gradient-difference (GDA) scalars of one client in one round, all on its first minibatch.

    g is the gradient at the anchor, dg the change of that same minibatch's gradient after the
    local steps, delta the displacement, v the last global step (the direction all clients share).
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


class Plan(NamedTuple):
    """Steps for every client of the cohort, what they are expected to cost, and how good that is."""

    steps: Array  # int, one per client of the problem
    seconds: float  # round time the plan predicts, by the problem's budget kind
    objective: float  # U(steps)
    bound: float  # no plan within the budget is worth more than this
    price: float  # worth of one more second (lambda)
    why: tuple[str, ...]  # per client, what stopped it: budget, drift, cap, fixed

    @property
    def gap(self) -> float:
        """Certified distance from the optimum, in units of the objective."""
        return max(0.0, self.bound - self.objective)
