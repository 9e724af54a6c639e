"""FedAvg with unequal local steps and full gradients, keeping every local model and gradient."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from claims.problems import Array, FederatedProblem, average, norm, spread, total

Steps = NDArray[np.int64]


class Trace(NamedTuple):
    """A run with nothing thrown away. Axes: (rounds, local step, *cases, clients, dim).

    A client's model stands still after its last step, so `points[:, -1]` is what it sends.
    """

    problem: FederatedProblem
    lr: Array  # eta, (*cases,)
    steps: Steps  # t_i, (rounds, *cases, clients)
    anchors: Array  # w^(k), (rounds + 1, *cases, dim)
    points: Array
    grads: Array  # of each client at its own point
    step_seconds: Array  # c_i, (*cases, clients)


def local_steps(problem: FederatedProblem, anchor: Array, steps: Steps, lr: Array, longest: int) -> Array:
    """Every client's models from the anchor on, (longest + 1, *cases, clients, dim)."""
    points = [np.array(spread(anchor, steps.shape[-1]))]
    for s in range(longest):
        move = lr[..., None, None] * problem.grad(points[-1])
        points.append(points[-1] - np.where((s < steps)[..., None], move, 0.0))
    return np.stack(points)


def record(
    problem: FederatedProblem,
    start: Array,
    steps: Steps,
    lr: Array | float,
    step_seconds: Array | None = None,
) -> Trace:
    """Run one round per leading row of `steps`, from `start`, averaging with the problem's weights."""
    steps = np.asarray(steps)
    cases = problem.weights.shape[:-1]
    eta = np.broadcast_to(np.asarray(lr, dtype=float), cases)
    steps = np.broadcast_to(steps, (steps.shape[0], *problem.weights.shape))
    anchors, points = [np.broadcast_to(start, problem.optimum.shape)], []
    for row in steps:
        points.append(local_steps(problem, anchors[-1], row, eta, int(steps.max())))
        anchors.append(average(problem.weights, points[-1][-1]))
    seconds = np.ones_like(problem.weights) if step_seconds is None else np.asarray(step_seconds)
    grads = np.stack([np.stack([problem.grad(p) for p in row]) for row in points])
    return Trace(problem, eta, steps, np.stack(anchors), np.stack(points), grads, seconds)


def errors(trace: Trace) -> Array:
    """e^(k) = w^(k) - w*, (rounds + 1, *cases, dim)."""
    return trace.anchors - trace.problem.optimum


def reach(trace: Trace) -> Array:
    """||e^(k)||, kept above what cancellation in w - w* leaves of it: rounding is relative to this."""
    return norm(errors(trace)) + 1e-5 * (norm(trace.anchors) + norm(trace.problem.optimum))


def taken(trace: Trace) -> NDArray[np.bool_]:
    """True where local step s was taken, (rounds, longest + 1, *cases, clients)."""
    s = np.arange(trace.points.shape[1]).reshape(-1, *(1,) * (trace.steps.ndim - 1))
    return s < trace.steps[:, None]


def deviations(trace: Trace) -> Array:
    """Delta g_i^(s): gradient at local step s less the gradient at the anchor."""
    return trace.grads - trace.grads[:, :1]


def drift(trace: Trace) -> Array:
    """Delta_i, the appendix's single sum (A.1.6), (rounds, *cases, clients, dim)."""
    return total(np.where(taken(trace)[..., None], deviations(trace), 0.0), 1)


def double_drift(trace: Trace) -> Array:
    """Delta_i as the main text prints it: step j is counted t_i - j times."""
    s = np.arange(trace.points.shape[1]).reshape(-1, *(1,) * (trace.steps.ndim - 1))
    times = np.where(s > 0, np.clip(trace.steps[:, None] - s, 0, None), 0)
    return total(times[..., None] * deviations(trace), 1)


def grad_bound(trace: Trace) -> Array:
    """G: the largest gradient norm met anywhere in the run, the smallest G that A2 allows, (*cases,)."""
    return np.asarray(norm(trace.grads).max(axis=(0, 1, -1)))


def mean_steps(trace: Trace) -> Array:
    """E = sum omega_i t_i, (rounds, *cases)."""
    return total(trace.problem.weights * trace.steps)


def pair_steps(trace: Trace) -> Array:
    """The paper's D_k^2 = sum omega_i t_i (t_i - 1) / 2, (rounds, *cases)."""
    return total(trace.problem.weights * trace.steps * (trace.steps - 1) / 2)


def tilt(trace: Trace) -> Array:
    """Total variation between omega_i and omega_i t_i / E: how far unequal steps move the objective."""
    counted = trace.problem.weights * trace.steps / mean_steps(trace)[..., None]
    return 0.5 * total(np.abs(counted - trace.problem.weights))
