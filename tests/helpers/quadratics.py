"""Clients whose loss is a quadratic, and the papers' pseudo-code written out again, method by method.

`drive` runs a Method of ours, numpy and a few lines; the functions in PAPER share nothing with it: they
keep models and states as plain lists and follow each paper's algorithm box.
"""

from typing import Any, NamedTuple

import numpy as np

from amsfl import protocol
from amsfl.methods import Federation, Method

Vector = Any


class Clients(NamedTuple):
    """F_i(w) = (w - m_i)' H_i (w - m_i) / 2."""

    curvature: Vector  # [n, d, d]
    minimum: Vector  # [n, d]
    weights: Vector  # [n], sum 1

    def grad(self, i: int, w: Vector) -> Vector:
        return self.curvature[i] @ (w - self.minimum[i])

    @property
    def optimum(self) -> Vector:
        """argmin of sum_i w_i F_i."""
        total = np.einsum("n,nij->ij", self.weights, self.curvature)
        pull = np.einsum("n,nij,nj->i", self.weights, self.curvature, self.minimum)
        return np.linalg.solve(total, pull)


def random_clients(n: int, d: int, seed: int) -> Clients:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n, d, d))
    curvature = np.einsum("nij,nkj->nik", roots, roots) / d + 0.2 * np.eye(d)
    weights = rng.dirichlet(np.ones(n))
    return Clients(curvature, rng.normal(size=(n, d)), weights)


def line(h: list[float], m: list[float], weights: list[float]) -> Clients:
    """Clients on a line, for numbers that can be derived by hand."""
    return Clients(np.array(h)[:, None, None], np.array(m)[:, None], np.array(weights))


def drive(
    method: Method, clients: Clients, x: Vector, rounds: list[tuple[list[int], list[int]]], lr: float
) -> tuple[Vector, Vector, list[Vector]]:
    """Rounds of (cohort, steps) with one of our methods; final anchor, server state, client states."""
    server, first = method.init(x)
    states = [first.copy() for _ in clients.weights]
    for cohort, steps in rounds:
        uploads, t = [], np.array(steps, float)
        for i, count in zip(cohort, t, strict=True):
            sent = protocol.sent_state(method, server, x)
            local = protocol.begin(protocol.LocalState(x, sent, states[i], lr))
            for _ in range(int(count)):
                local = protocol.local_step(method, local, clients.grad(i, local.x))
            upload, states[i], _ = protocol.finish(method, local, count)
            uploads.append(upload)
        x, server = protocol.settle(Federation(method), x, server, clients.weights[cohort], t, uploads)[:2]
    return x, server, states


def walked(clients, i, x, steps, lr, slope=lambda y: 0):
    """Where plain steps lead from x, along the client's gradient and what is added to it."""
    y = x.copy()
    for _ in range(steps):
        y = y - lr * (clients.grad(i, y) + slope(y))
    return y


def paper_fedavg(clients, x, rounds, lr, mu=0.0):
    for cohort, steps in rounds:
        share, ways = clients.weights[cohort] / clients.weights[cohort].sum(), zip(cohort, steps, strict=True)
        models = [walked(clients, i, x, t, lr, lambda w, x=x: mu * (w - x)) for i, t in ways]
        x = sum(p * w for p, w in zip(share, models, strict=True))
    return x


def paper_fednova(clients, x, rounds, lr):
    for cohort, steps in rounds:
        share = clients.weights[cohort] / clients.weights[cohort].sum()
        directions = []
        for i, t in zip(cohort, steps, strict=True):
            w, grads = x.copy(), []
            for _ in range(t):
                grads.append(clients.grad(i, w))
                w = w - lr * grads[-1]
            directions.append(np.mean(grads, axis=0))  # G a / ||a||_1 with a = (1, ..., 1)
        effective = sum(p * t for p, t in zip(share, steps, strict=True))
        x = x - lr * effective * sum(p * d for p, d in zip(share, directions, strict=True))
    return x


def paper_scaffold(clients, x, rounds, lr):
    n = len(clients.weights)
    own = [np.zeros_like(x) for _ in range(n)]
    for cohort, steps in rounds:
        control = sum(w * c for w, c in zip(clients.weights, own, strict=True))  # c as the mean of all c_i
        share = clients.weights[cohort] / clients.weights[cohort].sum()
        models = []
        for i, t in zip(cohort, steps, strict=True):
            y = walked(clients, i, x, t, lr, lambda y, shift=control - own[i]: shift)
            own[i] = own[i] - control + (x - y) / (t * lr)
            models.append(y)
        x = sum(p * y for p, y in zip(share, models, strict=True))
    return x


def paper_feddyn(clients, x, rounds, lr, alpha):
    n = len(clients.weights)
    linear = [np.zeros_like(x) for _ in range(n)]
    for cohort, steps in rounds:
        share = clients.weights[cohort] / clients.weights[cohort].sum()
        models = []
        for i, t in zip(cohort, steps, strict=True):
            y = walked(clients, i, x, t, lr, lambda y, own=linear[i], x=x: alpha * (y - x) - own)
            linear[i] = linear[i] - alpha * (y - x)
            models.append(y)
        h = sum(w * g for w, g in zip(clients.weights, linear, strict=True))  # h as the mean of all g_i
        x = sum(p * y for p, y in zip(share, models, strict=True)) - h / alpha
    return x


def mean_deltas(clients, x, cohort, steps, lr):
    """What every FedOpt server is given: the clients' models less x, and their weighted mean."""
    share = clients.weights[cohort] / clients.weights[cohort].sum()
    each = [paper_fedavg(clients, x, [([i], [t])], lr) - x for i, t in zip(cohort, steps, strict=True)]
    return share, each, sum(p * d for p, d in zip(share, each, strict=True))


def paper_fedavgm(clients, x, rounds, lr, momentum=0.9):
    v = np.zeros_like(x)
    for cohort, steps in rounds:
        v = momentum * v + mean_deltas(clients, x, cohort, steps, lr)[2]
        x = x + v
    return x


def paper_fedopt(clients, x, rounds, lr, yogi, rate=0.03, beta1=0.9, beta2=0.99, tau=1e-3):
    """Algorithm 2 of arXiv 2003.00295."""
    m, v = np.zeros_like(x), np.full_like(x, tau**2)
    for cohort, steps in rounds:
        delta = mean_deltas(clients, x, cohort, steps, lr)[2]
        m = beta1 * m + (1 - beta1) * delta
        away = v - delta**2
        v = v - (1 - beta2) * (delta**2 * np.sign(away) if yogi else away)
        x = x + rate * m / (np.sqrt(v) + tau)
    return x


def paper_fedasync(clients, x, rounds, lr, alpha=0.6, rho=0.005):
    """Algorithm 1 of arXiv 1903.03934 where all begin from the newest model: x is mixed with their mean."""
    for each in rounds:
        x = (1 - alpha) * x + alpha * paper_fedavg(clients, x, [each], lr, mu=rho)
    return x


def paper_fedbuff(clients, x, rounds, lr):
    """Algorithm 1 of arXiv 2106.06639 where all begin from the newest model."""
    for cohort, steps in rounds:
        x = x + sum(mean_deltas(clients, x, cohort, steps, lr)[1]) / len(cohort)
    return x


def paper_delayed_nesterov(clients, x, rounds, lr, server_lr=0.7, beta=0.9, n=4):
    """Algorithm 4 of arXiv 2401.09135 with c = 0, its pseudo-gradient the cohort's mean"""
    momentum, buffered = 0 * x, []
    for cohort, steps in rounds:
        g = -sum(mean_deltas(clients, x, cohort, steps, lr)[1]) / len(cohort)
        x, buffered = x - server_lr * g / n, [*buffered, g]
        if len(buffered) == n:
            momentum = beta * momentum + sum(buffered) / n
            x, buffered = x - server_lr * beta * momentum, []
    return x


def paper_fedcompass(clients, x, rounds, lr, alpha=0.9):
    """Algorithm 2 of arXiv 2309.14675 where a group begins from the newest model."""
    for cohort, steps in rounds:
        each = mean_deltas(clients, x, cohort, steps, lr)[1]
        x = x + alpha * sum(p * d for p, d in zip(clients.weights[cohort], each, strict=True))
    return x


PAPER = {
    "fedcompass": paper_fedcompass,
    "fedasync": paper_fedasync,
    "fedbuff": paper_fedbuff,
    "delayed-nesterov": paper_delayed_nesterov,
    "fedavg": paper_fedavg,
    "fedprox": lambda *args: paper_fedavg(*args, mu=0.3),
    "fednova": paper_fednova,
    "scaffold": paper_scaffold,
    "feddyn": lambda *args: paper_feddyn(*args, alpha=0.3),
    "fedcsda": paper_fedavg,  # its vectors are FedAvg's; what differs is the objective
    "fedavgm": paper_fedavgm,
    "fedadam": lambda *args: paper_fedopt(*args, yogi=False),
    "fedyogi": lambda *args: paper_fedopt(*args, yogi=True),
    "amsfl": paper_fedavg,
    "amsfl-steps": paper_fedavg,
    "amsfl-paper": paper_fedavg,
}
# all of AMSFL's own parts off: FedAvg's arithmetic is left
PLAIN = dict.fromkeys(("momentum", "balance", "judge"), 0.0)
OPTIONS = {"fedprox": {"mu": 0.3}, "feddyn": {"alpha": 0.3}, "amsfl": PLAIN}
