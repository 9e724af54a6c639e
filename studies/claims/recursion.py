"""Theorem 3.1 and the steps of its proof, and A.2.2 with the step below it, printed and corrected."""

import numpy as np

from claims.claim import Sides, claim
from claims.problems import Array, average, norm, spread, total
from claims.trace import Trace, drift, errors, grad_bound, mean_steps, pair_steps, reach, tilt


def _dot(x: Array, y: Array) -> Array:
    return total(x * y)


def squares(trace: Trace) -> tuple[Array, Array]:
    """||e^(k)||^2 and ||e^(k+1)||^2."""
    square = norm(errors(trace)) ** 2
    return square[:-1], square[1:]


def work(trace: Trace) -> Array:
    """sum_i omega_i t_i grad F_i(w^(k)): the descent direction that unequal steps really follow."""
    return average(trace.problem.weights, trace.steps[..., None] * trace.grads[:, 0])


def drifted(trace: Trace) -> Array:
    """sum_i omega_i Delta_i."""
    return average(trace.problem.weights, drift(trace))


def _full_grad(trace: Trace) -> Array:
    return average(trace.problem.weights, trace.grads[:, 0])


def bias(trace: Trace) -> Array:
    """sum_i omega_i t_i grad F_i(w*): zero for equal steps, the objective inconsistency otherwise."""
    star = trace.problem.grad(spread(trace.problem.optimum, trace.steps.shape[-1]))
    return average(trace.problem.weights, trace.steps[..., None] * star)


@claim("printed", "squared error", "A.1.9", "|e+|^2 expanded without <e, sum w Delta_i>", cross=False)
@claim("corrected", "squared error", "A.2.1", "|e+|^2 expanded in full", cross=True)
def _expanded(trace: Trace, cross: bool) -> Sides:
    now, after = squares(trace)
    e, eta, a, b = errors(trace)[:-1], trace.lr, work(trace), drifted(trace)
    expanded = now - 2 * eta * _dot(e, a) + eta**2 * norm(a + b) ** 2 - cross * 2 * eta * _dot(e, b)
    size = reach(trace)[:-1] ** 2 + eta**2 * (norm(a) + norm(b)) ** 2
    return Sides(np.abs(after - expanded), np.zeros(1), size)


def residual(trace: Trace) -> Array:
    """The paper's Delta_k = eta^2 G^2 E^2 + eta^2 L^2 G^2 D_k^2."""
    big = trace.problem.smooth**2 * pair_steps(trace) + mean_steps(trace) ** 2
    return (trace.lr * grad_bound(trace)) ** 2 * big


def _descent(trace: Trace) -> Array:
    fall = 2 * trace.lr * mean_steps(trace) * _dot(_full_grad(trace), errors(trace)[:-1])
    return squares(trace)[0] - fall


@claim(
    "printed",
    "error recursion",
    "Thm 3.1",
    "|e+|^2 <= |e|^2 - 2 eta E <grad F, e> + eta^2 G^2 E^2 + eta^2 L^2 G^2 D^2",
)
def _printed_recursion(trace: Trace) -> Sides:
    return Sides(squares(trace)[1], _descent(trace) + residual(trace), reach(trace)[:-1] ** 2)


@claim(
    "corrected",
    "error recursion",
    "Thm 3.1",
    "|e+|^2 <= |e|^2 - 2 eta E <grad F, e> + 2 eta |e| (2 E G TV + eta L G D^2) + eta^2 G^2 E^2",
)
def _recursion(trace: Trace) -> Sides:
    eta, bound, many = trace.lr, grad_bound(trace), mean_steps(trace)
    pull = 2 * many * bound * tilt(trace) + eta * trace.problem.smooth * bound * pair_steps(trace)
    rest = 2 * eta * norm(errors(trace)[:-1]) * pull + (eta * many * bound) ** 2
    return Sides(squares(trace)[1], _descent(trace) + rest, reach(trace)[:-1] ** 2)


@claim("printed", "Young form", "A.2.2", "|e+|^2 <= (1 + rho)|e|^2 - ... with rho = 0.1")
def _young(trace: Trace, rho: float = 0.1) -> Sides:
    now, after = squares(trace)
    eta, a, b = trace.lr, norm(work(trace)), norm(drifted(trace))
    fall = 2 * eta * _dot(errors(trace)[:-1], work(trace))
    rhs = (1 + rho) * now - fall + 2 * (eta * a) ** 2 + (2 + 1 / rho) * (eta * b) ** 2
    return Sides(after, rhs, reach(trace)[:-1] ** 2)


@claim(
    "printed",
    "strong convexity",
    "A.2, below A.2.2",
    "<e, sum w t g_i> >= mu E |e|^2",
    strong=True,
    corrected=False,
)
@claim(
    "corrected",
    "strong convexity",
    "A.2, below A.2.2",
    "<e, sum w t g_i> >= mu E |e|^2 + <e, sum w t grad F_i(w*)>",
    strong=True,
    corrected=True,
)
def _convexity(trace: Trace, corrected: bool) -> Sides:
    e = errors(trace)[:-1]
    least = trace.problem.convex * mean_steps(trace) * norm(e) ** 2 + corrected * _dot(e, bias(trace))
    gained = _dot(e, work(trace))
    return Sides(least, gained, mean_steps(trace) * trace.problem.smooth * reach(trace)[:-1] ** 2)
