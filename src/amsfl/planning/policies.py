"""Other policies than the default, and the names of all."""

import heapq
from itertools import count

import numpy as np

from amsfl.core import Kind, Plan, UserError
from amsfl.planning.problem import TOLERANCE, Ints, Policy, Problem, Signals, as_plan, price

ONE_BY_ONE = 1_000_000  # steps that Algorithm 1 may hand out in one plan: a second or two


def fixed(steps: int | None = None) -> Policy:
    """The same number of steps, or of epochs, for everyone (FedAvg), whatever it costs; `most` holds."""

    def plan(problem: Problem, signals: Signals) -> Plan:
        own = signals.steps if signals.own_steps is None else signals.own_steps
        asked = own if steps is None else int(steps)
        why = np.where(problem.most < asked, "cap", "fixed").tolist()
        return as_plan(problem, np.minimum(asked, problem.most), why)

    return Policy("fixed", plan, constant=True, limited=False)


def fill() -> Policy:
    """As many steps as a common deadline allows, whatever they are worth: t = floor((D - b)/c).

    Under makespan D is the budget; under sum the latest D that the budget allows.
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
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        fastest = signals.steps if most is None else int(most)
        floor = max(fastest // 5, 1) if least is None else int(least)
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
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        if problem.budget is None:
            raise UserError("Algorithm 1 only spends a budget, and none was given; add --budget SECONDS.")
        w, c = problem.weights.tolist(), problem.step_seconds.tolist()  # lists: one number at a time
        first, second = _constants(signals)
        a, b = first if alpha is None else alpha, second if beta is None else beta
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


POLICIES: Kind[Policy] = Kind(
    "policy",
    Policy,
    {"price": price, "fixed": fixed, "fill": fill, "speed": speed, "printed": printed},
)


def policy(given: str | Policy, **settings: float) -> Policy:
    """A policy by name with its settings, e.g. policy("fixed", steps=20), or as it was passed.

    Args:
        given: A name, `module:attribute`, or either with numbers, as in speed:30/6; or a Policy.
        **settings: Its numbers.

    Returns:
        The policy.
    """
    if isinstance(given, str) and not settings:
        return POLICIES.numbered(given)
    return POLICIES.of(given, settings)
