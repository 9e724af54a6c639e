"""The step-allocation problem: who gets how many local steps this round.

maximise U(t) = sum_i w_i sum_{s<t_i} m_i(s)   over t_i in {1..t_max_i}, within the budget

with m_i(s) the worth of client i's step s, s counted from 0, from a gain a and a drift d:
linear a - d s (the paper's quadratic model), geometric a exp(-d s / a) (drift that saturates).
Both start at a with slope -d. A round takes sum(c t + b) seconds (`sum`: one client after another, the
paper's) or max(c t + b) (`makespan`: all at once). Resources are further budgets, summed over clients.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from amsfl.core.records import Json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Curve = Literal["linear", "geometric"]
Kind = Literal["sum", "makespan"]

TOLERANCE = 1e-9  # relative: 3 steps of 0.1 s fit a budget of 0.3 s, whatever binary fractions say
TINY = float(np.finfo(np.float64).tiny)
COLUMNS = ("weights", "step_seconds", "comm_seconds", "gain", "drift", "t_max")  # of a Problem
REASONS = np.array(["budget", "rate", "cap", "drift"], object)  # what stops a client, where worth decides


@dataclass(frozen=True)
class Resource:
    """A further budget: sum_i (per_step_i t_i + per_round_i) <= limit. Joules, megabytes, money."""

    name: str
    per_step: Floats
    per_round: Floats
    limit: float


@dataclass(frozen=True)
class Problem:
    """Numbers in; `amsfl.schedule.problem` builds and checks one. Arrays hold one entry per client."""

    weights: Floats
    step_seconds: Floats
    comm_seconds: Floats
    gain: Floats
    drift: Floats
    t_max: Ints
    curve: Curve = "linear"
    kind: Kind = "sum"
    budget: float | None = None  # seconds; None: maximise U(t) per second
    resources: tuple[Resource, ...] = ()
    clients: tuple[str, ...] = ()


def worth(problem: Problem, s: Ints | int) -> Floats:
    """What step s (counted from 0) of each client adds to U; s is one number or one per client."""
    return curve_worth(problem.curve, problem.weights, problem.gain, problem.drift, s)


def curve_worth(curve: Curve, weights: Floats, gain: Floats, drift: Floats, s: Ints | int) -> Floats:
    """`worth` on bare arrays."""
    if curve == "linear":
        return np.asarray(weights * (gain - drift * s))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        decay = np.exp(-(drift * s) / gain)
    return np.where(gain > 0, weights * gain * decay, 0.0)


def gains(problem: Problem, steps: Ints) -> Floats:
    """Each client's share of U(steps), in closed form."""
    w, a, d = problem.weights, problem.gain, problem.drift
    if problem.curve == "linear":
        return w * (a * steps - d * (steps * (steps - 1.0) / 2.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        series = np.expm1(-(d * steps) / a) / np.expm1(-d / a)  # sum of a geometric series
        flat = d / a < 1e-300
    return np.where(a > 0, w * a * np.where(flat, steps, series), 0.0)


def utility(problem: Problem, steps: Ints) -> float:
    """U(steps), what a plan is worth."""
    return float(gains(problem, steps).sum())


def client_seconds(problem: Problem, steps: Ints) -> Floats:
    """Each client's own c t + b."""
    return problem.step_seconds * steps + problem.comm_seconds


def seconds(problem: Problem, steps: Ints) -> float:
    """How long the round takes, by the problem's kind."""
    each = client_seconds(problem, steps)
    return float(each.sum() if problem.kind == "sum" else each.max())


def rate(problem: Problem, steps: Ints) -> float:
    """U per second, what is maximised when no budget is given."""
    return utility(problem, steps) / seconds(problem, steps)


def count_worthwhile(problem: Problem, threshold: Floats, cap: Ints) -> Ints:
    """How many steps of each client are worth more than its threshold: between 1 and cap, closed form.

    linear: s < (a - threshold/w)/d; geometric: s < (a/d) ln(w a/threshold).
    """
    w, a, d = problem.weights, problem.gain, problem.drift
    end = np.maximum(threshold, TINY)  # so that worthless steps are never counted
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if problem.curve == "linear":
            np.divide(end, w, out=end)
            np.subtract(a, end, out=end)
            np.divide(end, d, out=end)
        else:
            np.divide(w * a, end, out=end)
            np.log(end, out=end)
            np.multiply(end, a / d, out=end)
    np.ceil(end, out=end)
    np.fmax(end, 1.0, out=end)  # fmax: 0/0 counts as no more
    return np.minimum(end, cap, out=end).astype(np.int64)


def useful(problem: Problem) -> Ints:
    """The last step of any worth, or t_max."""
    top = count_worthwhile(problem, np.zeros_like(problem.gain), problem.t_max)
    rounded_up = (top > 1) & (worth(problem, top - 1) <= 0)
    return top - rounded_up


def worthless(problem: Problem, steps: Ints) -> NDArray[np.bool_]:
    """Whether the step after these adds nothing: drift has eaten its worth, down to rounding."""
    return np.asarray(worth(problem, steps) <= 1e-12 * problem.weights * problem.gain)


def by_deadline(problem: Problem, top: Ints, deadline: float, least: int = 1) -> Ints:
    """The steps, from least up to top, that each client finishes by the deadline when all work at once."""
    spare = (deadline * (1 + TOLERANCE) - problem.comm_seconds) / problem.step_seconds
    return np.clip(spare, np.minimum(least, top), top).astype(np.int64)


def steps_between(problem: Problem, low: Ints, high: Ints) -> tuple[Ints, Ints, Floats]:
    """Every client's steps number low + 1 to high, one after another: whose each is, its number from 0, and
    its worth."""
    extra = high - low
    who = np.repeat(np.arange(extra.size), extra)
    s = np.arange(who.size) - np.repeat(np.cumsum(extra) - extra, extra) + low[who]
    return who, s, curve_worth(problem.curve, problem.weights[who], problem.gain[who], problem.drift[who], s)


def caps(problem: Problem) -> Ints:
    """The most steps a client can use, looking at it alone: t_max, worth, and the deadline under makespan."""
    if problem.kind == "makespan" and problem.budget is not None:
        return by_deadline(problem, useful(problem), problem.budget)
    return useful(problem)


def summed_limits(problem: Problem) -> tuple[Floats, Floats]:
    """Every limit that is a sum over clients, as (cost of a step, what is left after one step each).

    Shapes (limits, clients) and (limits,). The seconds come first where they are summed and limited.
    """
    costs = [r.per_step for r in problem.resources]
    left = [r.limit * (1 + TOLERANCE) - float((r.per_step + r.per_round).sum()) for r in problem.resources]
    if problem.kind == "sum" and problem.budget is not None:
        first = float((problem.step_seconds + problem.comm_seconds).sum())
        costs.insert(0, problem.step_seconds)
        left.insert(0, problem.budget * (1 + TOLERANCE) - first)
    n = problem.weights.size
    matrix = np.array(costs, np.float64).reshape(len(costs), n)
    return matrix, np.maximum(np.array(left, np.float64), 0.0)


def within(problem: Problem, steps: Ints) -> bool:
    """Whether steps respect the budget and every resource (to one part in a billion)."""
    if problem.budget is not None and seconds(problem, steps) > problem.budget * (1 + 2 * TOLERANCE):
        return False
    return all(used(r, steps) <= r.limit * (1 + 2 * TOLERANCE) for r in problem.resources)


def used(resource: Resource, steps: Ints) -> float:
    """How much of a resource the steps use."""
    return float((resource.per_step * steps + resource.per_round).sum())


def subset(problem: Problem, keep: Ints) -> Problem:
    """The problem of some of the clients; budget and limits stay as they are."""
    columns: Json = {name: getattr(problem, name)[keep] for name in COLUMNS}
    limits = (replace(r, per_step=r.per_step[keep], per_round=r.per_round[keep]) for r in problem.resources)
    clients = tuple(problem.clients[i] for i in keep)
    return replace(problem, **columns, resources=tuple(limits), clients=clients)
