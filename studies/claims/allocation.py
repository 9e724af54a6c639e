"""Theorem 3.4, what its problem's answer really is, and the objective the scheduler uses instead."""

import numpy as np

from claims.claim import Sides, claim
from claims.problems import Array, average, total
from claims.recursion import residual
from claims.trace import Trace, taken


def spend(shape: Array, price: Array, budget: Array) -> Array:
    """Steps in proportion to `shape` that spend the whole budget."""
    return shape * (budget / total(price * shape))[..., None]


def printed_allocation(worth: Array, seconds: Array, budget: Array) -> Array:
    """The appendix's t_i ~ (c_i a_i)^(-1/2)."""
    return spend(1 / np.sqrt(worth * seconds), seconds, budget)


def quadratic_allocation(worth: Array, seconds: Array, budget: Array) -> Array:
    """min sum a_i t_i^2 with sum c_i t_i = S: 2 a_i t_i = lambda c_i, so t_i ~ c_i / a_i."""
    return spend(seconds / worth, seconds, budget)


def step_worth(trace: Trace) -> Array:
    """m_i(s) = eta <grad F(w), grad F_i(w_i^(s))>, (rounds, longest + 1, *cases, clients)."""
    full = average(trace.problem.weights, trace.grads[:, 0])
    return trace.lr[..., None] * total(full[:, None, ..., None, :] * trace.grads)


def objective(trace: Trace) -> Array:
    """U(t) = sum_i omega_i sum_{s < t_i} m_i(s), (rounds, *cases)."""
    per_client = total(np.where(taken(trace), step_worth(trace), 0.0), 1)
    return total(trace.problem.weights * per_client)


@claim("printed", "step allocation", "Thm 3.4", "t ~ C^(-1/2) is best for min sum w t^2, sum w C t = T")
def _theorem(trace: Trace) -> Sides:
    weights = trace.problem.weights
    price = weights * trace.step_seconds
    budget = total(price * trace.steps)
    claimed = spend(1 / np.sqrt(np.broadcast_to(trace.step_seconds, price.shape)), price, budget)
    best = quadratic_allocation(weights, price, budget)
    return Sides(total(weights * claimed**2), total(weights * best**2))


@claim("printed", "step allocation", "A.4", "t ~ (c w)^(-1/2) is best for min sum w t^2, sum c t = S")
def _appendix(trace: Trace) -> Sides:
    weights, seconds = trace.problem.weights, trace.step_seconds
    budget = total(seconds * trace.steps)
    claimed = printed_allocation(weights, seconds, budget)
    best = quadratic_allocation(weights, seconds, budget)
    return Sides(total(weights * claimed**2), total(weights * best**2))


@claim("corrected", "step allocation", "A.4", "t ~ c/w is best for min sum w t^2, sum c t = S")
def _quadratic(trace: Trace) -> Sides:
    weights, seconds = trace.problem.weights, trace.step_seconds
    best = quadratic_allocation(weights, seconds, total(seconds * trace.steps))
    return Sides(total(weights * best**2), total(weights * trace.steps**2))


@claim("corrected", "what is minimised", "Thm 3.4, 3.4", "Delta_k(t) is smallest at t = 1 for all")
def _one_step(trace: Trace) -> Sides:
    return Sides(residual(trace._replace(steps=np.ones_like(trace.steps))), residual(trace))
