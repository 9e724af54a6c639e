"""The rules of others, to be held against. What they remember between rounds comes in as arguments."""

import math
from typing import TypeVar

import numpy as np

from amsfl.core import Plan, UserError
from amsfl.schedule.optimise import as_plan
from amsfl.schedule.policy import Policy, Signals, require_numbers, whole_number
from amsfl.schedule.problem import Problem, client_seconds, seconds, within
from amsfl.schedule.simple import latest, shared

T = TypeVar("T")
HORIZON = 100  # rounds that a run without a time limit is taken to have left


def wang(
    lr: float | None = None,
    rho: float | None = None,
    beta: float | None = None,
    delta: float | None = None,
    left: float | None = None,
    phi: float = 0.025,
    previous: int | None = None,
    most: int = 100,
) -> Policy:
    """One shared tau for the rest of a run of `left` seconds (Wang et al. 2019, arXiv 1804.05271).

    tau minimises 1/(2 lr phi T) + sqrt(1/(4 lr^2 phi^2 T^2) + rho h/(lr phi tau)) + rho h, where T is the
    number of local steps that fit into `left`, h = delta/beta ((lr beta + 1)^tau - 1) - lr delta tau, and
    rho, beta (the secant smoothness), delta (gradient divergence) are weighted means of the readings.
    Search up to 10 times the previous tau and at most 100, phi 0.025: the authors' code
    (github.com/IBM/adaptive-federated-learning). A round's budget, where there is one, holds too.
    In a run all come from its signals; delta is then the slope, which bounds it.

    Args:
        lr: The learning rate.
        rho: Of the loss's Lipschitz constant.
        beta: Of its smoothness.
        delta: How far clients' gradients lie apart.
        left: Seconds until the end.
        phi: The authors' control parameter.
        previous: The tau before.
        most: The largest tau.

    Returns:
        The policy.
    """
    limit = whole_number("wang", "most", most)

    def plan(problem: Problem, signals: Signals) -> Plan:
        once = np.ones(problem.weights.size, np.int64)
        rate, steep, curved, apart = require_numbers(
            "wang",
            lr=_or(lr, signals.lr),
            rho=_or(rho, signals.slope),
            beta=_or(beta, signals.curvature),
            delta=_or(delta, signals.slope),
        )
        before = _or(previous, signals.previous) or signals.steps
        rest = _or(_or(left, signals.left), HORIZON * seconds(problem, once))
        taus = np.arange(1, max(1, min(10 * before, limit)) + 1)
        took = np.array([seconds(problem, tau * once) for tau in taus])
        curved = max(curved, 1e-5)  # the authors' floor
        with np.errstate(all="ignore"):
            total = rest * taus / took
            h = np.maximum(
                apart / curved * np.expm1(taus * np.log1p(rate * curved)) - rate * apart * taus, 0.0
            )
            half = 1.0 / (2.0 * rate * phi * total)
            loss = half + np.sqrt(half**2 + steep * h / (rate * phi * taus)) + steep * h
        tau = int(taus[np.argmin(np.where(np.isfinite(loss), loss, np.inf))])
        while tau > 1 and not within(problem, np.minimum(tau, problem.t_max)):
            tau -= 1
        return shared(problem, tau)

    return Policy("wang", plan, readings=True)


def adacomm(
    initial: int | None = None,
    loss0: float | None = None,
    loss: float | None = None,
    previous: int | None = None,
    gamma: float = 0.5,
) -> Policy:
    """tau = ceil(sqrt(loss/loss0) tau_0), or gamma times the previous one where that would not be smaller.

    AdaComm (Wang and Joshi 2018, arXiv 1810.08313): communicate rarely at first, often towards the end.
    In a run its basic rule holds every round; the halving belongs to its long intervals, and wants
    `previous` said.

    Args:
        initial: Tau_0; by default the user's steps.
        loss0: At the first anchor.
        loss: At the last one.
        previous: Steps of the round before.
        gamma: What they shrink by.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        start = whole_number("adacomm", "initial", _or(initial, signals.steps))
        tau = math.ceil(math.sqrt(_share("adacomm", loss0, loss, signals)) * start)
        if previous is not None and tau >= previous:
            tau = math.ceil(gamma * previous)
        return shared(problem, max(tau, 1))

    return Policy("adacomm", plan, losses=True, limited=False)


def decaying(
    initial: int | None = None,
    round: int | None = None,
    loss0: float | None = None,
    loss: float | None = None,
) -> Policy:
    """K_r = ceil(K_0 r^(-1/3)), or with losses ceil(K_0 (loss/loss0)^(1/3)).

    Decaying K (Mills, Hu and Min 2023, arXiv 2305.09628), rounds counted from 1.

    Args:
        initial: K_0; by default the user's steps.
        round: R; by default the run's.
        loss0: At the first anchor.
        loss: At the last one.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        start = whole_number("decaying", "initial", _or(initial, signals.steps))
        if loss0 is not None and loss is not None:
            share = _share("decaying", loss0, loss, signals)
        else:
            share = 1.0 / max(_or(round, signals.round + 1), 1)
        steps = math.ceil(start * share ** (1.0 / 3.0) - 1e-12)  # 8 ** (1/3) is a little over 2
        return shared(problem, max(steps, 1))

    return Policy("decaying", plan, limited=False)


def speed(most: int | None = None, least: int | None = None) -> Policy:
    """Everyone finishes with the fastest client, which does `most` steps; nobody below `least`.

    The step rule of FedCompass (arXiv 2309.14675) and FedQueue in a synchronous round:
    t = floor((arrival - b)/c), with least a fifth of most, as in their code (github.com/APPFL/APPFL).
    A round's budget or further resources bring the arrival forward.

    Args:
        most: Steps of the fastest client.
        least: Steps of everybody.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        fastest = whole_number("speed", "most", _or(most, signals.steps))
        floor = max(fastest // 5, 1) if least is None else whole_number("speed", "least", least)
        if floor > fastest:
            raise UserError(f"speed needs least <= most, not least={floor} and most={fastest}.")
        top = np.minimum(fastest, problem.t_max)
        arrival = float(client_seconds(problem, top).min())
        if problem.kind == "makespan" and problem.budget is not None:
            arrival = min(arrival, problem.budget)
        t = latest(problem, top, arrival, floor)
        if not within(problem, t):  # then a budget does not have the least for everyone
            t = latest(problem, top, arrival)
        return as_plan(problem, t, tuple(np.where(t >= problem.t_max, "cap", "fixed").tolist()))

    return Policy("speed", plan, constant=True)


def _or(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _share(policy: str, loss0: float | None, loss: float | None, signals: Signals) -> float:
    """loss / loss0: what was set, else what the run tells, else 1."""
    first = _or(_or(loss0, signals.loss0), 1.0)
    if not first > 0:
        raise UserError(f"loss0, the loss before the first round, is {first:g}; it must be above 0.")
    share = max(_or(_or(loss, signals.loss), first), 0.0) / first
    if not math.isfinite(share):
        raise UserError(f"The policy {policy!r} needs losses that are finite numbers.")
    return share
