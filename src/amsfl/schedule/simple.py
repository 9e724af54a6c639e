"""Rules that do not look at worth: the paper's Algorithm 1, fixed steps, and filling a deadline."""

import heapq
from itertools import count

import numpy as np

from amsfl.core import Plan, UserError
from amsfl.schedule.build import MOST_STEPS
from amsfl.schedule.lagrange import spent
from amsfl.schedule.optimise import as_plan
from amsfl.schedule.policy import Policy, Signals, whole_number
from amsfl.schedule.problem import Ints, Problem, by_deadline, client_seconds, summed_limits

ONE_BY_ONE = 1_000_000  # steps that Algorithm 1 may hand out in one plan: a second or two


def printed(alpha: float | None = None, beta: float | None = None) -> Policy:
    """The paper's Algorithm 1 to the letter, for study only.

    While T < S: give one more step to the client with the least (alpha w + beta w (2t - 1)/2)/c, where T is
    the sum of c t + b. It minimises an error that grows with every step, so it feeds the slowest and least
    important clients; it knows no t_max, and its last step goes over the budget. In a run
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


def fixed(steps: int | None = None) -> Policy:
    """The same number of steps, or of epochs, for everyone (FedAvg), whatever it costs; t_max still holds.

    Args:
        steps: How many; the setting `steps` if left out.

    Returns:
        The policy.
    """
    chosen = None if steps is None else whole_number("fixed", "steps", steps)
    return Policy(
        "fixed",
        lambda problem, signals: shared(
            problem, chosen or (signals.steps if signals.own_steps is None else signals.own_steps)
        ),
        constant=True,
        limited=False,
    )


def shared(problem: Problem, steps: int | Ints) -> Plan:
    """A plan of equal steps, or of every client's own, cut at t_max."""
    t = np.minimum(np.minimum(np.int64(MOST_STEPS), steps), problem.t_max)
    return as_plan(problem, t, tuple(np.where(problem.t_max < steps, "cap", "fixed").tolist()))


def fill() -> Policy:
    """As many steps as a common deadline allows, whatever they are worth: t = floor((D - b)/c).

    Under makespan D is the budget; under sum, and with further resources, the latest D that they allow.

    Returns:
        The policy.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        if problem.budget is None:
            raise UserError("fill needs a deadline to fill, and none was given; add --budget SECONDS.")
        late = problem.budget if problem.kind == "makespan" else np.inf
        t = latest(problem, problem.t_max, late)
        return as_plan(problem, t, tuple(np.where(t >= problem.t_max, "cap", "budget").tolist()))

    return Policy("fill", plan, constant=True, spends=True)


def latest(problem: Problem, top: Ints, deadline: float, least: int = 1) -> Ints:
    """Steps by the latest common deadline, not after the one given, that every summed limit allows.

    Where `least` steps for everyone is already too much, that is what comes back.
    """
    cost, room = summed_limits(problem)

    def fits(when: float) -> bool:
        return bool((spent(cost, by_deadline(problem, top, when, least) - 1) <= room).all())

    low, high = 0.0, min(deadline, float(client_seconds(problem, top).max()))
    if fits(high):
        return by_deadline(problem, top, high, least)
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return by_deadline(problem, top, low, least)
