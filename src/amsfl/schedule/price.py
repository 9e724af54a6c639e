"""The default: every step has a price, and a client steps while its next one is worth it.

With one summed limit the price lambda of a second settles everything: client i takes the steps worth more
than lambda c_i, in closed form (linear t = (a - lambda c/w)/d, geometric t = (a/d) ln(w a/(lambda c)),
rounded up), and lambda is searched so that the budget just holds. What is left over goes to the best steps
that still fit. The result is the greedy plan, at a cost that does not grow with the number of steps.
With several limits, steps are ranked by worth over their cost at the limits' own prices.
"""

import math
from typing import NamedTuple

import numpy as np

from amsfl.schedule.lagrange import Charges, binding, bound_at, multipliers, spent, tighten, value
from amsfl.schedule.problem import Floats, Ints, Problem, count_worthwhile, steps_between, subset, worth

WINDOW = 256  # so few steps are sorted rather than searched further


class Solution(NamedTuple):
    """What a solver gives for fixed caps and limits."""

    steps: Ints
    bound: float  # on U(t) - offset . t
    prices: Floats  # one per limit


def solve(problem: Problem, cap: Ints, charges: Charges) -> Solution:
    """Steps for max U(t) - offset . t with t <= cap and cost (t - 1) <= room; see the module."""
    cost, room, offset = charges
    prices = np.zeros(room.size)
    cap = tighten(count_worthwhile(problem, offset, cap), cost, room)
    tight = binding(cap, cost, room)
    if tight.size == 0:
        return Solution(cap, value(problem, cap, offset), prices)
    if tight.size == 1:
        rank = cost[tight[0]]
        steps, level = take(problem, np.ones_like(cap), cap, charges, rank)
        prices[tight] = level
        bound, _ = bound_at(problem, cap, charges, prices)
    else:
        prices[tight], bound = multipliers(problem, cap, charges.only(tight))
        rank = (prices[:, None] * cost).sum(axis=0)
        steps, _ = take(problem, np.ones_like(cap), cap, charges, rank)
    steps = fill(problem, steps, cap, charges, rank)
    return Solution(steps, max(bound, value(problem, steps, offset)), prices)


def fill(problem: Problem, steps: Ints, cap: Ints, charges: Charges, rank: Floats) -> Ints:
    """Give what is left to the best steps that still fit, until none does."""
    steps, cost, room = steps.copy(), charges.cost, charges.room
    while True:
        left = room - spent(cost, steps - 1)
        live = np.flatnonzero((steps < cap) & (cost <= left[:, None]).all(0))
        if live.size == 0:
            return steps
        alone = tighten(cap[live] - steps[live] + 1, cost[:, live], left) + steps[live] - 1
        some = subset(problem, live)
        more, _ = take(some, steps[live], alone, charges.of(live, left), rank[live])
        if (more == steps[live]).all():
            return steps
        steps[live] = more


def take(problem: Problem, start: Ints, cap: Ints, charges: Charges, rank: Floats) -> tuple[Ints, float]:
    """From start on, steps in falling order of (worth - offset)/rank while they fit; also the level at which
    the first one did not (0 if all did). Steps that do not fit are passed over."""
    (cost, room, offset), high_steps, low_steps = charges, start, cap
    low_spent, high_spent = spent(cost, low_steps - start), np.zeros(room.size)
    if (low_spent <= room).all():
        return low_steps, 0.0
    low, usual, high = _levels(problem, start, low_steps, rank, offset)
    few, turn, jump = max(WINDOW, start.size // 4), 0, 10.0
    while int((low_steps - high_steps).sum()) > few and high > low * (1 + 1e-12):
        if jump:  # the lowest level lies far out: come from above in growing jumps until too much is spent
            middle, jump = max(low, min(usual, high) / jump), jump * jump
        else:  # what is spent is nearly straight in log(level): aim by a secant, halve every third time
            part = 0.5 if turn % 3 == 2 else _secant(low_spent, high_spent, room)
            middle, turn = low ** (1 - part) * high**part, turn + 1
        steps = np.maximum(count_worthwhile(problem, offset + middle * rank, cap), start)
        now = spent(cost, steps - start)
        if (now <= room).all():
            high, high_steps, high_spent = middle, steps, now
        else:
            low, low_steps, low_spent, jump = middle, steps, now, 0.0
    return _by_rank(problem, high_steps, low_steps, charges._replace(room=room - high_spent), rank)


def _secant(low_spent: Floats, high_spent: Floats, room: Floats) -> float:
    """How far from low to high the tightest limit would just hold, if spending were straight in between."""
    over = low_spent - room
    part = np.where(over > 0, over / np.maximum(low_spent - high_spent, 1e-300), 0.0)
    return min(max(float(part.max()), 0.02), 0.98)


def _levels(
    problem: Problem, start: Ints, end: Ints, rank: Floats, offset: Floats
) -> tuple[float, float, float]:
    """Levels at which all, half the clients' first, and none of the steps from start to end are taken."""
    moving = (end > start) & (rank > 0)
    if not moving.any():
        return 1.0, 1.0, 1.0
    first = (worth(problem, start) - offset)[moving] / rank[moving]
    last = (worth(problem, end - 1) - offset)[moving] / rank[moving]
    low, high = max(float(last.min()), 1e-300), max(float(first.max()), 1e-300)
    return low, min(max(float(np.median(first)), low), high), high


def _by_rank(problem: Problem, start: Ints, end: Ints, charges: Charges, rank: Floats) -> tuple[Ints, float]:
    """`take` on the few steps between start and end, one by one in sorted order."""
    cost, room, offset = charges
    who, _, steps_worth = steps_between(problem, start, end)
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(rank[who] > 0, (steps_worth - offset[who]) / rank[who], np.inf)
    order = np.argsort(-level, kind="stable")
    who, level, steps, broke = who[order], level[order], start.copy(), 0.0
    while who.size:
        total = np.cumsum(cost[:, who], axis=1)
        over = (total > room[:, None]).any(0)
        fit = int(np.argmax(over)) if over.any() else who.size
        if fit < who.size and not broke:
            broke = float(level[fit])
        if fit:
            np.add.at(steps, who[:fit], 1)
            room = room - total[:, fit - 1]
        who, level = who[fit + 1 :], level[fit + 1 :]
        keep = (cost[:, who] <= room[:, None]).all(0)
        who, level = who[keep], level[keep]
    return steps, max(broke, 0.0) if math.isfinite(broke) else 0.0
