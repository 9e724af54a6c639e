"""Marginal gain per second: always the step with the most worth for its cost that still fits.

One step at a time, in a heap: the reference that `price` is held against. Never over budget. With one
summed limit it loses at most the worth of the first step that did not fit, and a larger budget never lowers
U: where a step fits only the larger budget, all that the smaller one buys instead is worth less than it.
"""

import heapq

import numpy as np

from amsfl.core import UserError
from amsfl.schedule.lagrange import Charges, binding, bound_at, multipliers, tighten, value
from amsfl.schedule.price import Solution
from amsfl.schedule.problem import Ints, Problem, count_worthwhile, curve_worth

ONE_BY_ONE = 200_000  # steps, each of them some microseconds


def solve(problem: Problem, cap: Ints, charges: Charges) -> Solution:
    """Greedy steps for max U(t) - offset . t with t <= cap and cost (t - 1) <= room.

    A step's cost over several limits is the sum of the shares it takes of what each has left at the start.
    """
    cost, room, offset = charges
    cap = tighten(count_worthwhile(problem, offset, cap), cost, room)
    if (many := int(cap.sum())) > ONE_BY_ONE:
        raise UserError(
            f"greedy takes one step at a time, and there are {many:,}; use price: its plan is as good."
        )
    share = (cost / np.where(room > 0, room, 1.0)[:, None]).sum(0) if room.size else np.ones(cap.size)
    steps, left, broke = np.ones_like(cap), room.copy(), 0.0

    def entry(i: int) -> tuple[float, int] | None:
        if steps[i] >= cap[i]:
            return None
        one = slice(i, i + 1)
        extra = curve_worth(
            problem.curve, problem.weights[one], problem.gain[one], problem.drift[one], int(steps[i])
        )
        net = float(extra[0] - offset[i])
        return (-net / share[i] if share[i] > 0 else -np.inf, i) if net > 0 else None

    heap = [e for e in map(entry, range(cap.size)) if e]
    heapq.heapify(heap)
    while heap:
        level, i = heapq.heappop(heap)
        if (cost[:, i] > left).any():
            broke = broke or -level
            continue
        steps[i] += 1
        left -= cost[:, i]
        if again := entry(i):
            heapq.heappush(heap, again)
    return _certified(problem, cap, charges, steps, broke)


def _certified(problem: Problem, cap: Ints, charges: Charges, steps: Ints, broke: float) -> Solution:
    """The bound: with one limit from the step that did not fit, with several from the limits' own prices."""
    cost, room, offset = charges
    prices = np.zeros(room.size)
    reached = value(problem, steps, offset)
    if room.size == 0:
        return Solution(steps, reached, prices)
    tight = binding(cap, cost, room)
    if room.size == 1:
        prices[0] = broke / room[0] if room[0] > 0 else 0.0
        bound, _ = bound_at(problem, cap, charges, prices)
    elif tight.size:
        prices[tight], bound = multipliers(problem, cap, charges.only(tight))
    else:
        bound, _ = bound_at(problem, cap, charges, prices)
    return Solution(steps, max(bound, reached), prices)
