"""Federated problems whose constants are known, so that a bound can be held against a run.

Every array may carry leading axes `(*cases, ...)`: thousands of random problems are one problem.
A model is a row per client, shape (*cases, clients, dim), because clients part after one step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def total(x: Array, axis: int = -1) -> Array:
    return np.asarray(np.sum(x, axis=axis))


def contract(spec: str, *arrays: Array) -> Array:
    """Einstein's sum."""
    return np.asarray(np.einsum(spec, *arrays))


class FederatedProblem(NamedTuple):
    """Clients F_i with weights omega_i, and the constants the paper's assumptions speak of."""

    weights: Array  # (*cases, clients)
    loss: Callable[[Array], Array]  # (*cases, clients, dim) -> (*cases, clients)
    grad: Callable[[Array], Array]  # -> (*cases, clients, dim)
    hess: Callable[[Array], Array]  # -> (*cases, clients, dim, dim)
    smooth: Array  # L, the largest over clients, (*cases,)
    convex: Array  # mu, the smallest over clients
    hess_lip: Array  # M, Lipschitz constant of the Hessians
    optimum: Array  # w*, (*cases, dim)


def spread(w: Array, clients: int) -> Array:
    """One row per client of the shared model w."""
    return np.broadcast_to(w[..., None, :], (*w.shape[:-1], clients, w.shape[-1]))


def average(weights: Array, per_client: Array) -> Array:
    """sum_i omega_i x_i for vectors x_i."""
    return total(weights[..., None] * per_client, -2)


def norm(x: Array) -> Array:
    return np.asarray(np.linalg.norm(x, axis=-1))


def newton(
    problem_weights: Array,
    grad: Callable[[Array], Array],
    hess: Callable[[Array], Array],
    dim: int,
    iterations: int = 60,
) -> Array:
    """The minimiser of sum_i omega_i F_i; a step that does not shrink the gradient is halved."""
    clients = problem_weights.shape[-1]
    w = np.zeros((*problem_weights.shape[:-1], dim))
    scale = np.ones(problem_weights.shape[:-1])
    for _ in range(iterations):
        here = spread(w, clients)
        g = average(problem_weights, grad(here))
        h = total(problem_weights[..., None, None] * hess(here), -3)
        trial = w - scale[..., None] * np.linalg.solve(h, g[..., None])[..., 0]
        better = norm(average(problem_weights, grad(spread(trial, clients)))) < norm(g)
        w = np.where(better[..., None], trial, w)
        scale = np.where(better, 1.0, scale / 2)
        if not np.any(better & (norm(g) > 1e-15)):
            break
    return w


def quadratic(hessians: Array, centres: Array, weights: Array) -> FederatedProblem:
    """F_i(w) = (w - w_i)' H_i (w - w_i) / 2; the Hessian never changes, so M = 0."""
    eigen = np.linalg.eigvalsh(hessians)

    def grad(w: Array) -> Array:
        return contract("...ij,...j->...i", hessians, w - centres)

    def loss(w: Array) -> Array:
        return 0.5 * total((w - centres) * grad(w))

    def hess(w: Array) -> Array:
        return np.broadcast_to(hessians, (*w.shape, w.shape[-1]))

    return FederatedProblem(
        weights,
        loss,
        grad,
        hess,
        eigen.max(axis=(-1, -2)),
        eigen.min(axis=(-1, -2)),
        np.zeros(weights.shape[:-1]),
        newton(weights, grad, hess, centres.shape[-1]),
    )


def logistic(features: Array, labels: Array, ridge: Array, weights: Array) -> FederatedProblem:
    """Mean of log(1 + exp(-y x'w)) over a client's rows + ridge ||w||^2 / 2, labels +-1.

    The sigmoid's slope is at most 1/4 and its second derivative at most 1/(6 sqrt 3), hence L and M.
    """
    rows, dim = features.shape[-2:]
    ridge = np.broadcast_to(ridge, weights.shape[:-1])
    gram = contract("...ri,...rj->...ij", features, features) / rows
    cubic = contract("...r,...ri,...rj->...ij", norm(features), features, features) / rows

    def margin(w: Array) -> Array:
        return labels * contract("...ri,...i->...r", features, w)

    def sigmoid(z: Array) -> Array:
        return 0.5 * (1 + np.tanh(0.5 * z))

    def loss(w: Array) -> Array:
        fit = total(np.logaddexp(0.0, -margin(w))) / rows
        return np.asarray(fit + 0.5 * ridge[..., None] * total(w * w))

    def grad(w: Array) -> Array:
        pull = labels * sigmoid(-margin(w))
        return np.asarray(ridge[..., None, None] * w - contract("...r,...ri->...i", pull, features) / rows)

    def hess(w: Array) -> Array:
        z = margin(w)
        slope = sigmoid(z) * sigmoid(-z)
        bend = contract("...r,...ri,...rj->...ij", slope, features, features) / rows
        return np.asarray(bend + ridge[..., None, None, None] * np.eye(dim))

    return FederatedProblem(
        weights,
        loss,
        grad,
        hess,
        0.25 * np.linalg.eigvalsh(gram).max(axis=(-1, -2)) + ridge,
        np.asarray(ridge),
        np.linalg.eigvalsh(cubic).max(axis=(-1, -2)) / (6 * np.sqrt(3)),
        newton(weights, grad, hess, dim),
    )


def tanh(sharpness: float = 20.0) -> FederatedProblem:
    """One client, one dimension, F'(w) = tanh(k w) / k: L = 1 whatever k, but M grows with k."""
    k = float(sharpness)

    def loss(w: Array) -> Array:
        return np.asarray(np.logaddexp(k * w, -k * w)[..., 0] - np.log(2.0)) / k**2

    def grad(w: Array) -> Array:
        return np.tanh(k * w) / k

    def hess(w: Array) -> Array:
        return (1 - np.tanh(k * w) ** 2)[..., None]

    # |F'''| = 2 k sech^2 tanh, largest where tanh^2 = 1/3.
    return FederatedProblem(
        np.ones(1),
        loss,
        grad,
        hess,
        np.array(1.0),
        np.array(0.0),
        np.array(4 * k / (3 * np.sqrt(3))),
        np.zeros(1),
    )
