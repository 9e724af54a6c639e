"""Random problems and runs, for tests and counts of violated claims."""

import numpy as np

from claims.problems import FederatedProblem, contract, logistic, quadratic
from claims.trace import Trace, record


def random_quadratics(
    rng: np.random.Generator, cases: int, clients: int = 4, dim: int = 3, apart: float = 1.0
) -> FederatedProblem:
    """Random eigenvectors, eigenvalues log-uniform in [mu, L], centres `apart` from each other."""
    low = 10 ** rng.uniform(-2, 0, (cases, 1, 1))
    eigen = low ** rng.uniform(0, 1, (cases, clients, dim)) * 10 ** rng.uniform(-0.5, 0.5, (cases, 1, 1))
    turn = np.linalg.qr(rng.normal(size=(cases, clients, dim, dim)))[0]
    hessians = contract("...ij,...j,...kj->...ik", turn, eigen, turn)
    centres = apart * rng.normal(size=(cases, clients, dim))
    return quadratic(hessians, centres, rng.dirichlet(np.ones(clients), cases))


def random_logistic(
    rng: np.random.Generator, cases: int, clients: int = 3, dim: int = 3, rows: int = 12
) -> FederatedProblem:
    """Gaussian features, a different true direction per client, so that the clients disagree."""
    features = rng.normal(size=(cases, clients, rows, dim)) * 10 ** rng.uniform(-0.5, 0.7, (cases, 1, 1, 1))
    truth = rng.normal(size=(cases, clients, dim))
    labels = np.sign(contract("...ri,...i->...r", features, truth) + rng.normal(size=(cases, clients, rows)))
    ridge = 10 ** rng.uniform(-2, 0, cases)
    return logistic(features, labels, ridge, rng.dirichlet(np.ones(clients), cases))


def random_trace(
    rng: np.random.Generator,
    problem: FederatedProblem,
    equal: bool,
    rounds: int = 4,
    most: int = 8,
    reach: float | None = None,
) -> Trace:
    """Random start, steps and costs; eta L = reach, or anything from 0.003 to 1 if none is given."""
    cases, clients = problem.weights.shape
    steps = rng.integers(1, most + 1, (1, cases, 1 if equal else clients))
    steps = np.broadcast_to(steps, (rounds, cases, clients))
    scale = 10 ** rng.uniform(-2.5, 0, cases) if reach is None else reach
    start = problem.optimum + rng.normal(size=problem.optimum.shape) * 10 ** rng.uniform(-1, 1, (cases, 1))
    return record(problem, start, steps, scale / problem.smooth, 10 ** rng.uniform(-1, 1, (cases, clients)))
