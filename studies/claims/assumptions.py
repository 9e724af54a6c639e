"""The error identity, assumptions A1 to A4 and Proposition 3.3, as printed and as corrected."""

from collections.abc import Callable

import numpy as np

from claims.claim import Sides, claim
from claims.problems import Array, contract, norm, spread
from claims.trace import Trace, deviations, double_drift, drift, errors, grad_bound, reach


@claim(
    "printed",
    "error identity",
    "3.2, eq. for e_i",
    "e_i = e - eta t g_i - eta Delta_i, double sum",
    summed=double_drift,
)
@claim("corrected", "error identity", "A.1.7", "e_i = e - eta t g_i - eta Delta_i, single sum", summed=drift)
def _identity(trace: Trace, summed: Callable[[Trace], Array]) -> Sides:
    eta = trace.lr[..., None, None]
    start = spread(errors(trace)[:-1], trace.steps.shape[-1])
    predicted = start - eta * (trace.steps[..., None] * trace.grads[:, 0] + summed(trace))
    end = trace.points[:, -1] - trace.problem.optimum[..., None, :]
    return Sides(norm(predicted - end), np.zeros(1), norm(start) + norm(end) + reach(trace)[:-1, ..., None])


def _displacements(trace: Trace) -> Array:
    return trace.points - trace.points[:, :1]


def _size(trace: Trace) -> Array:
    """What rounding in a gradient is relative to: the models it was taken at, not how small it is."""
    reach = norm(trace.points) + norm(trace.problem.optimum)[..., None]
    return norm(trace.grads) + trace.problem.smooth[..., None] * reach


@claim("printed", "smoothness", "A1", "|dg| <= L |delta|")
def _smooth(trace: Trace) -> Sides:
    rhs = trace.problem.smooth[..., None] * norm(_displacements(trace))
    return Sides(norm(deviations(trace)), rhs, _size(trace))


def contraction(trace: Trace) -> Array:
    """q: one gradient step brings any two models at least this much closer, (*cases,)."""
    low, high = trace.lr * trace.problem.convex, trace.lr * trace.problem.smooth
    return np.maximum(np.abs(1 - low), np.abs(1 - high))


def ball_grad_bound(trace: Trace) -> Array:
    """G over a ball round w* that no step can leave, whatever the step counts; inf if a step may diverge.

    ||step_i(w) - w*|| <= q ||w - w*|| + eta ||grad F_i(w*)||, so R = eta g / (1 - q) is kept.
    """
    problem, q = trace.problem, contraction(trace)
    star = np.asarray(norm(problem.grad(spread(problem.optimum, trace.steps.shape[-1]))).max(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.where(q < 1, trace.lr * star / (1 - q), np.inf)
    return star + problem.smooth * np.maximum(norm(errors(trace)[0]), radius)


@claim("printed", "bounded gradient", "A2", "|g_i(w)| <= G for all w", strong=True)
def _bounded_everywhere(trace: Trace) -> Sides:
    # ||grad F_i(w)|| >= mu ||w - w*|| - ||grad F_i(w*)||: far enough away any G is passed.
    problem, bound = trace.problem, ball_grad_bound(trace)
    far = 2 * bound / problem.convex
    far_point = problem.optimum + np.eye(problem.optimum.shape[-1])[0] * far[..., None]
    return Sides(norm(problem.grad(spread(far_point, trace.steps.shape[-1]))).max(axis=-1), bound)


@claim("corrected", "bounded gradient", "A2", "|g_i(w)| <= g* + L R on the ball no step leaves", strong=True)
def _bounded_in_ball(trace: Trace) -> Sides:
    return Sides(norm(trace.grads).max(axis=(1, -1)), ball_grad_bound(trace))


def gda_error(trace: Trace) -> Array:
    """||H(w) delta - (grad F(w + delta) - grad F(w))|| from the anchor to every local model."""
    bend = np.stack([trace.problem.hess(row[0]) for row in trace.points])[:, None]
    return norm(contract("...ij,...j->...i", bend, _displacements(trace)) - deviations(trace))


@claim("printed", "GDA error", "A3, Prop. 3.3", "|H delta - dg| <= L/2 |delta|^2", constant="smooth")
@claim("corrected", "GDA error", "A3, Prop. 3.3", "|H delta - dg| <= M/2 |delta|^2", constant="hess_lip")
def _gda(trace: Trace, constant: str) -> Sides:
    moved = norm(_displacements(trace))
    return Sides(gda_error(trace), getattr(trace.problem, constant)[..., None] / 2 * moved**2, _size(trace))


@claim("corrected", "GDA error, L alone", "A3, Prop. 3.3", "|H delta - dg| <= L |delta| (convex F)")
def _gda_smooth(trace: Trace) -> Sides:
    rhs = trace.problem.smooth[..., None] * norm(_displacements(trace))
    return Sides(gda_error(trace), rhs, _size(trace))


def _drift_size(trace: Trace) -> Array:
    reached = (trace.problem.smooth * reach(trace)[:-1])[..., None]
    return trace.steps * (norm(trace.grads[:, 0]) + reached)


@claim("printed", "drift accumulation", "A4", "|Delta_i| <= L G t(t-1)/2", stepped=False)
@claim("corrected", "drift accumulation", "A4", "|Delta_i| <= eta L G t(t-1)/2", stepped=True)
def _accumulation(trace: Trace, stepped: bool) -> Sides:
    constant = ((trace.lr if stepped else 1.0) * trace.problem.smooth * grad_bound(trace))[..., None]
    pairs = trace.steps * (trace.steps - 1) / 2
    return Sides(norm(drift(trace)), constant * pairs, _drift_size(trace))
