"""Theorem 3.4, what its problem's answer really is, and the objective the scheduler uses instead."""

import numpy as np

from amsfl.core.records import Array
from amsfl.theory.claim import Claim, Sides
from amsfl.theory.problems import average, norm, spread
from amsfl.theory.recursion import residual
from amsfl.theory.trace import Trace, reach, taken


def spend(shape: Array, price: Array, budget: Array) -> Array:
    """Steps in proportion to `shape` that spend the whole budget."""
    return shape * (budget / np.sum(price * shape, axis=-1))[..., None]


def printed_allocation(worth: Array, seconds: Array, budget: Array) -> Array:
    """The appendix's t_i ~ (c_i a_i)^(-1/2)."""
    return spend(1 / np.sqrt(worth * seconds), seconds, budget)


def quadratic_allocation(worth: Array, seconds: Array, budget: Array) -> Array:
    """min sum a_i t_i^2 with sum c_i t_i = S: 2 a_i t_i = lambda c_i, so t_i ~ c_i / a_i."""
    return spend(seconds / worth, seconds, budget)


def step_worth(trace: Trace) -> Array:
    """m_i(s) = eta <grad F(w), grad F_i(w_i^(s))>, (rounds, longest + 1, *cases, clients)."""
    full = average(trace.problem.weights, trace.grads[:, 0])
    return trace.lr[..., None] * np.sum(full[:, None, ..., None, :] * trace.grads, axis=-1)


def objective(trace: Trace) -> Array:
    """U(t) = sum_i omega_i sum_{s < t_i} m_i(s), (rounds, *cases)."""
    per_client = np.sum(np.where(taken(trace), step_worth(trace), 0.0), axis=1)
    return np.sum(trace.problem.weights * per_client, axis=-1)


def _theorem(trace: Trace) -> Sides:
    weights = trace.problem.weights
    price = weights * trace.step_seconds
    budget = np.sum(price * trace.steps, axis=-1)
    said = spend(1 / np.sqrt(np.broadcast_to(trace.step_seconds, price.shape)), price, budget)
    best = quadratic_allocation(weights, price, budget)
    return Sides(np.sum(weights * said**2, axis=-1), np.sum(weights * best**2, axis=-1))


def _appendix(trace: Trace) -> Sides:
    weights, seconds = trace.problem.weights, trace.step_seconds
    budget = np.sum(seconds * trace.steps, axis=-1)
    said = printed_allocation(weights, seconds, budget)
    best = quadratic_allocation(weights, seconds, budget)
    return Sides(np.sum(weights * said**2, axis=-1), np.sum(weights * best**2, axis=-1))


def _quadratic(trace: Trace) -> Sides:
    weights, seconds = trace.problem.weights, trace.step_seconds
    best = quadratic_allocation(weights, seconds, np.sum(seconds * trace.steps, axis=-1))
    return Sides(np.sum(weights * best**2, axis=-1), np.sum(weights * trace.steps**2, axis=-1))


def _one_step(trace: Trace) -> Sides:
    return Sides(residual(trace._replace(steps=np.ones_like(trace.steps))), residual(trace))


def _worth(trace: Trace) -> Sides:
    full = average(trace.problem.weights, trace.grads[:, 0])
    moved = trace.anchors[:-1] - trace.anchors[1:]
    return Sides(
        np.abs(np.sum(full * moved, axis=-1) - objective(trace)),
        np.zeros(1),
        norm(full) * (norm(moved) + norm(trace.anchors[:-1])),
    )


def _decrease(trace: Trace) -> Sides:
    clients = trace.steps.shape[-1]
    losses = np.stack(
        [
            np.sum(trace.problem.weights * trace.problem.loss(spread(w, clients)), axis=-1)
            for w in trace.anchors
        ]
    )
    moved = norm(trace.anchors[1:] - trace.anchors[:-1])
    rhs = losses[:-1] - objective(trace) + trace.problem.smooth / 2 * moved**2
    size = np.abs(losses[:-1]) + np.abs(objective(trace)) + trace.problem.smooth * reach(trace)[:-1] ** 2
    return Sides(losses[1:], rhs, size)


CLAIMS = (
    Claim(
        "step allocation",
        "Thm 3.4",
        "printed",
        "t ~ C^(-1/2) is best for min sum w t^2, sum w C t = T",
        _theorem,
    ),
    Claim(
        "step allocation",
        "A.4",
        "printed",
        "t ~ (c w)^(-1/2) is best for min sum w t^2, sum c t = S",
        _appendix,
    ),
    Claim(
        "step allocation", "A.4", "corrected", "t ~ c/w is best for min sum w t^2, sum c t = S", _quadratic
    ),
    Claim(
        "what is minimised", "Thm 3.4, 3.4", "corrected", "Delta_k(t) is smallest at t = 1 for all", _one_step
    ),
    Claim(
        "scheduler's objective",
        "docs/theory.md",
        "corrected",
        "<grad F, w - w+> = sum w sum_s m_i(s)",
        _worth,
    ),
    Claim("decrease of F", "docs/theory.md", "corrected", "F(w+) <= F(w) - U + L/2 |w+ - w|^2", _decrease),
)
