"""Policies: rules from numbers to steps, and what they want to know."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np

from amsfl.core import Kind, Plan, UserError
from amsfl.planning.problem import MOST_STEPS, TOLERANCE, Ints, Problem, as_plan, best_alone, best_steps

ONE_BY_ONE = 1_000_000  # steps that Algorithm 1 may hand out in one plan: a second or two


class Signals(NamedTuple):
    """What a run can tell a policy beyond the problem; None where nobody knows.

    The readings' are weighted means over the last cohort.
    """

    round: int = 0  # counted from 0
    steps: int = 20  # the user's, for rules that start from a number
    lr: float | None = None
    slope: float | None = None  # gradient norm
    curvature: float | None = None  # secant smoothness, ||dg|| / ||delta||
    convexity: float | None = None  # curvature along the gradient
    interval: float | None = None  # seconds between two moves of a server that does not wait
    own_steps: Ints | None = None  # the user's for every client, where epochs make them unequal
    stale: Callable[[float], float] | None = None  # and what work counts there by its age in moves


class Policy(NamedTuple):
    """plan(problem, signals) -> Plan, and what it needs; a policy is also called like its plan function.

    Whoever writes one returns `as_plan(problem, steps, why)`.
    """

    name: str
    plan: Callable[[Problem, Signals], Plan]
    readings: bool = False  # plans by gain and fading, so clients take readings
    constant: bool = False  # looks at the problem's costs alone: planned once for a cohort
    steps: bool = True  # may look at the user's number of steps
    constants: bool = True  # may look at slope, curvature and convexity
    limited: bool = True  # keeps to a round's budget
    spends: bool = False  # spends a round's budget; without one it gets that of a round of equal steps

    def __call__(self, problem: Problem, signals: Signals | None = None) -> Plan:
        return self.plan(problem, signals or Signals())


def price() -> Policy:
    """The default: the steps with the most worth per second, or within a budget.

    Where clients do not wait for each other each is planned alone, by its own worth per second.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        alone = signals.stale is not None
        steps = best_alone(problem, signals.stale, signals.interval) if signals.stale else best_steps(problem)
        stopped = "rate" if alone or problem.budget is None else "budget"
        return as_plan(problem, steps, np.where(steps >= problem.most, "cap", stopped).tolist())

    return Policy("price", plan, readings=True, steps=False, constants=False)


def fixed(steps: int | None = None) -> Policy:
    """The same number of steps, or of epochs, for everyone (FedAvg), whatever it costs; `most` still holds.

    Args:
        steps: How many; the setting `steps` if left out.

    Returns:
        The policy.
    """
    chosen = None if steps is None else whole_number("fixed", "steps", steps)

    def plan(problem: Problem, signals: Signals) -> Plan:
        asked = chosen or (signals.steps if signals.own_steps is None else signals.own_steps)
        why = np.where(problem.most < asked, "cap", "fixed").tolist()
        return as_plan(problem, np.minimum(asked, problem.most), why)

    return Policy("fixed", plan, constant=True, limited=False)


def fill() -> Policy:
    """As many steps as a common deadline allows, whatever they are worth: t = floor((D - b)/c).

    Under makespan D is the budget; under sum the latest D that the budget allows.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        if problem.budget is None:
            raise UserError("fill needs a deadline to fill, and none was given; add --budget SECONDS.")
        steps = latest(problem, problem.budget)
        return as_plan(problem, steps, np.where(steps >= problem.most, "cap", "budget").tolist())

    return Policy("fill", plan, constant=True, spends=True)


def speed(most: int | None = None, least: int | None = None) -> Policy:
    """Everyone finishes with the fastest client, which does `most` steps; nobody below `least`.

    The step rule of FedCompass (arXiv 2309.14675) and FedQueue in a synchronous round:
    t = floor((arrival - b)/c), with least a fifth of most, as in their code (github.com/APPFL/APPFL).
    A round's budget brings the arrival forward.

    Args:
        most: Steps of the fastest client.
        least: Steps of everybody.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        fastest = whole_number("speed", "most", signals.steps if most is None else most)
        floor = max(fastest // 5, 1) if least is None else whole_number("speed", "least", least)
        if floor > fastest:
            raise UserError(f"speed needs least <= most, not least={floor} and most={fastest}.")
        some = problem._replace(most=np.minimum(fastest, problem.most))
        arrival = float(some.client_seconds(some.most).min())
        steps = latest(some, arrival, floor)
        if not problem.fits(steps):  # then a budget does not have the least for everyone
            steps = latest(some, arrival)
        return as_plan(problem, steps, np.where(steps >= problem.most, "cap", "fixed").tolist())

    return Policy("speed", plan, constant=True)


def latest(problem: Problem, deadline: float, least: int = 1) -> Ints:
    """Steps by the latest common deadline, not after the one given, that the budget allows.

    Where `least` steps for everyone is already too much, that is what comes back.
    """

    def fits(when: float) -> bool:
        budget = np.inf if problem.budget is None else problem.budget
        return problem.seconds(problem.steps_by(when, least)) <= budget * (1 + TOLERANCE)

    low, high = 0.0, deadline
    if problem.clock == "makespan" and problem.budget is not None:
        high = min(deadline, problem.budget)
    if fits(high):
        return problem.steps_by(high, least)
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return problem.steps_by(low, least)


def printed(alpha: float | None = None, beta: float | None = None) -> Policy:
    """The paper's Algorithm 1 to the letter, for study only.

    While T < S: give one more step to the client with the least (alpha w + beta w (2t - 1)/2)/c, where T is
    the sum of c t + b. It minimises an error that grows with every step, so it feeds the slowest and least
    important clients; it knows no most, and its last step goes over the budget. In a run
    alpha = 2 lr sqrt(mu) G and beta = lr^2 L^2 G^2 / 2 with the constants of the readings; alone both are 1.

    Args:
        alpha: The paper's; from the run's readings if left out.
        beta: Likewise.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        if problem.budget is None:
            raise UserError("Algorithm 1 only spends a budget, and none was given; add --budget SECONDS.")
        w, c = problem.weights.tolist(), problem.step_seconds.tolist()  # lists: one number at a time
        first, second = _constants(signals)
        a, b = first if alpha is None else alpha, second if beta is None else beta
        if not (a >= 0 and b >= 0):
            raise UserError(f"The policy 'printed' takes alpha and beta from 0 up, not {a:g} and {b:g}.")
        t = [1] * len(w)
        total = float((problem.step_seconds + problem.comm_seconds).sum())
        heap = [((a * w[i] + b * w[i] * 0.5) / c[i], i) for i in range(len(w))]
        heapq.heapify(heap)
        for taken in count():
            if total >= problem.budget:
                break
            if taken == ONE_BY_ONE:
                raise UserError(
                    f"Algorithm 1 adds one step at a time, and {taken:,} of them reach {total:.4g} s of the "
                    f"{problem.budget:.4g} s allowed; lower --budget."
                )
            _, i = heap[0]
            t[i] += 1
            total += c[i]
            heapq.heapreplace(heap, ((a * w[i] + b * w[i] * (2 * t[i] - 1) / 2) / c[i], i))
        return as_plan(problem, np.array(t, np.int64), ("budget",) * len(t))

    return Policy("printed", plan, readings=True, spends=True)


def _constants(signals: Signals) -> tuple[float, float]:
    if signals.lr is None:
        return 1.0, 1.0
    slope = 1.0 if signals.slope is None else signals.slope
    curved = 1.0 if signals.curvature is None else signals.curvature
    convex = signals.convexity or 0.0
    return 2 * signals.lr * convex**0.5 * slope, 0.5 * (signals.lr * curved * slope) ** 2


def whole_number(policy: str, name: str, number: float) -> int:
    """A setting that counts steps, within bounds that plans can hold."""
    if not 1 <= number <= MOST_STEPS or number != int(number):
        raise UserError(
            f"The policy {policy!r} takes a whole number from 1 to {MOST_STEPS:,} for {name}, not {number:g}."
        )
    return int(number)


POLICIES: Kind[Policy] = Kind(
    "policy",
    Policy,
    {"price": price, "fixed": fixed, "fill": fill, "speed": speed, "printed": printed},
)


def policy(given: str | Policy, **settings: float) -> Policy:
    """A policy by name with its settings, e.g. policy("fixed", steps=20), or as it was passed.

    Args:
        given: A name, `module:attribute`, or a Policy.
        **settings: Its numbers.

    Returns:
        The policy.
    """
    return POLICIES.of(given, {key: _typed(value) for key, value in settings.items()})


def _typed(value: float) -> float:
    """20.0, as files and flags have it, is the whole number 20."""
    return int(value) if abs(value) < 2**53 and float(value).is_integer() else value
