"""The rules of others, to be held against. What they remember between rounds comes in as arguments."""

import math

import numpy as np

from amsfl.core import Plan, UserError
from amsfl.schedule.optimise import Policy, as_plan
from amsfl.schedule.problem import Problem, seconds, within
from amsfl.schedule.simple import latest, shared


def wang(
    lr: float,
    rho: float,
    beta: float,
    delta: float,
    left: float,
    phi: float = 0.025,
    previous: int = 10,
    most: int = 100,
) -> Policy:
    """One shared tau for the rest of a run of `left` seconds (Wang et al. 2019, arXiv 1804.05271).

    tau minimises 1/(2 lr phi T) + sqrt(1/(4 lr^2 phi^2 T^2) + rho h/(lr phi tau)) + rho h, where T is the
    number of local steps that fit into `left`, h = delta/beta ((lr beta + 1)^tau - 1) - lr delta tau, and
    rho, beta (the secant smoothness), delta (gradient divergence) are weighted means of the readings.
    Search up to 10 times the previous tau and at most 100, phi 0.025: the authors' code
    (github.com/IBM/adaptive-federated-learning). A round's budget, where there is one, holds too.
    """

    def policy(problem: Problem) -> Plan:
        taus = np.arange(1, max(1, min(10 * previous, most)) + 1)
        once = np.ones(problem.weights.size, np.int64)
        took = np.array([seconds(problem, tau * once) for tau in taus])
        total = left * taus / took
        curved = max(beta, 1e-5)  # the authors' floor
        with np.errstate(over="ignore"):
            h = np.maximum(delta / curved * np.expm1(taus * math.log1p(lr * curved)) - lr * delta * taus, 0.0)
            half = 1.0 / (2.0 * lr * phi * total)
            loss = half + np.sqrt(half**2 + rho * h / (lr * phi * taus)) + rho * h
        tau = int(taus[np.argmin(np.where(np.isfinite(loss), loss, np.inf))])
        while tau > 1 and not within(problem, np.minimum(tau, problem.t_max)):
            tau -= 1
        return shared(problem, tau)

    return policy


def adacomm(
    initial: int, loss0: float, loss: float, previous: int | None = None, gamma: float = 0.5
) -> Policy:
    """tau = ceil(sqrt(loss/loss0) tau_0), or gamma times the previous one where that would not be smaller.

    AdaComm (Wang and Joshi 2018, arXiv 1810.08313): communicate rarely at first, often towards the end.
    """
    tau = math.ceil(math.sqrt(max(loss, 0.0) / _above_zero("loss0", loss0)) * initial)
    if previous is not None and tau >= previous:
        tau = math.ceil(gamma * previous)
    return lambda problem: shared(problem, max(tau, 1))


def decaying(initial: int, round: int = 1, loss0: float | None = None, loss: float | None = None) -> Policy:
    """K_r = ceil(K_0 r^(-1/3)), or with losses ceil(K_0 (loss/loss0)^(1/3)).

    Decaying K (Mills, Hu and Min 2023, arXiv 2305.09628), rounds counted from 1.
    """
    if loss0 is not None and loss is not None:
        share = max(loss, 0.0) / _above_zero("loss0", loss0)
    else:
        share = 1.0 / max(round, 1)
    steps = math.ceil(initial * share ** (1.0 / 3.0) - 1e-12)  # 8 ** (1/3) is a little over 2
    return lambda problem: shared(problem, max(steps, 1))


def speed(most: int = 100, least: int | None = None) -> Policy:
    """Everyone finishes with the fastest client, which does `most` steps; nobody below `least`.

    The step rule of FedCompass (arXiv 2309.14675) and FedQueue in a synchronous round:
    t = floor((arrival - b)/c), with least a fifth of most, as in their code (github.com/APPFL/APPFL).
    A round's budget or further resources bring the arrival forward.
    """
    floor = max(most // 5, 1) if least is None else least
    if not 1 <= floor <= most:
        raise UserError(f"speed needs 1 <= least <= most, not least={floor} and most={most}.")

    def policy(problem: Problem) -> Plan:
        top = np.minimum(most, problem.t_max)
        arrival = float((problem.step_seconds * top + problem.comm_seconds).min())
        if problem.kind == "makespan" and problem.budget is not None:
            arrival = min(arrival, problem.budget)
        t = latest(problem, top, arrival, floor)
        if not within(problem, t):  # then a budget does not have the least for everyone
            t = latest(problem, top, arrival)
        return as_plan(problem, t, tuple(np.where(t >= problem.t_max, "cap", "fixed").tolist()))

    return policy


def _above_zero(name: str, number: float) -> float:
    if not number > 0:
        raise UserError(f"{name}, the loss before the first round, is {number:g}; it must be above 0.")
    return number
