"""The optimum, by integer programming (HiGHS through scipy.optimize.milp).

The price plan and its Lagrangian bound come first: a step whose worth lies further from its price than the
gap between the two is settled, in or out, so that only the few steps near the price reach HiGHS, as yes or
no each. Worth falls along a client's steps and all cost the same, so they are taken in order by themselves.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from amsfl.core import Plan, UserError
from amsfl.schedule.lagrange import Charges, spent, tighten, value
from amsfl.schedule.optimise import optimise
from amsfl.schedule.price import Solution
from amsfl.schedule.price import solve as by_price
from amsfl.schedule.problem import Floats, Ints, Problem, count_worthwhile, steps_between

SCALE = 1e4  # of objective and limits: HiGHS's tolerances are absolute, 1e-6


def exact(problem: Problem, limit_s: float = 60.0) -> Plan:
    """The best plan there is; where HiGHS needs longer than limit_s, the best found and an honest bound."""
    if not 0 < limit_s <= 86_400:
        raise UserError(
            f"The policy 'exact' takes limit_s above 0 and up to 86,400 seconds, not {limit_s:g}."
        )
    return optimise(problem, partial(solve, limit_s=limit_s), proven=True)


def solve(problem: Problem, cap: Ints, charges: Charges, limit_s: float = 60.0) -> Solution:
    """max U(t) - offset . t with t <= cap and cost (t - 1) <= room."""
    cost, room, offset = charges
    start = by_price(problem, cap, charges)
    reached = value(problem, start.steps, offset)
    gap = start.bound - reached
    if gap <= 1e-13 * max(abs(start.bound), abs(reached)):
        return Solution(_cheapest(problem, cost, start.steps), reached, start.prices)
    gap *= 1 + 1e-9
    cap = tighten(cap, cost, room)
    price = offset + (start.prices[:, None] * cost).sum(axis=0)
    # A step worth more than its price plus the gap must be taken, one worth less than minus the gap must not.
    low = count_worthwhile(problem, price + gap, cap)
    high = np.maximum(count_worthwhile(problem, np.maximum(price - gap, offset), cap), low)
    steps, bound = start.steps, start.bound
    tight = room
    for _ in range(5):
        candidate, dual = _between(problem, low, high, charges._replace(room=tight), limit_s)
        if candidate is None:
            bound = min(bound, max(reached, dual))
            break
        over = spent(cost, candidate - 1) - room
        if (over > 0).any():  # inside HiGHS's tolerance, outside ours: ask for that much less
            tight = tight - 2 * np.maximum(over, 0.0)
            continue
        if value(problem, candidate, offset) > reached:
            steps, reached = candidate, value(problem, candidate, offset)
        bound = min(bound, max(reached, dual))
        break
    return Solution(_cheapest(problem, cost, steps), max(bound, reached), start.prices)


def _between(
    problem: Problem, low: Ints, high: Ints, charges: Charges, limit_s: float
) -> tuple[Ints | None, float]:
    """The best steps between low and high, if any fit, and what HiGHS proved about them."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow to import, and only needed here

    cost, room, offset = charges
    base, left = value(problem, low, offset), room - spent(cost, low - 1)
    if (high == low).all() or (left < 0).any():
        return (low if (left >= 0).all() else None), base
    who, _, step_worth = steps_between(problem, low, high)
    net = step_worth - offset[who]
    # A client's steps that are worth the same (no drift) are one variable, or HiGHS tries all their orders.
    first = np.flatnonzero(np.append(True, (np.diff(who) != 0) | (np.diff(net) != 0)))
    many = np.diff(np.append(first, who.size))
    who, net = who[first], net[first]
    unit = SCALE / max(float(np.abs(net).max()), 1e-300)
    share = cost[:, who] * (SCALE / np.where(left > 0, left, 1.0))[:, None]
    with _quiet():
        answer = milp(
            -net * unit,
            integrality=np.ones(who.size),
            bounds=Bounds(np.zeros(who.size), many),
            constraints=LinearConstraint(share, -np.inf, np.where(left > 0, SCALE, 0.0)),
            options={"mip_rel_gap": 0.0, "time_limit": limit_s},
        )
    if answer.x is None:
        return None, base if answer.status == 2 else np.inf
    steps = low + np.bincount(who, np.round(answer.x), minlength=low.size).astype(np.int64)
    reached = value(problem, steps, offset)
    if answer.status == 0:  # proven up to HiGHS's absolute tolerance: the value itself is the bound
        return steps, reached
    return steps, max(reached, base - answer.mip_dual_bound / unit)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep a stray line of HiGHS 1.12 off stdout (github.com/ERGO-Code/HiGHS/issues/2783)."""
    try:
        libc, out = ctypes.CDLL(None), os.dup(1)
    except (OSError, TypeError):  # no C library by that name, or no stdout: nothing to keep quiet
        yield
        return
    sys.stdout.flush()
    libc.fflush(None)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        libc.fflush(None)
        os.dup2(out, 1)
        os.close(nowhere)
        os.close(out)


def _cheapest(problem: Problem, cost: Floats, steps: Ints) -> Ints:
    """Among clients that differ only in what a step costs, the cheaper ones get the more steps.

    Such an exchange keeps U and never costs more; HiGHS does not care which of two equals it returns.
    """
    if cost.shape[0] != 1 or np.unique(steps).size == 1:
        return steps
    same = np.column_stack([problem.weights, problem.gain, problem.drift, problem.t_max])
    _, group = np.unique(same, axis=0, return_inverse=True)
    group = group.reshape(-1)
    cheap = np.lexsort((cost[0], group))
    most = np.lexsort((-steps, group))
    swapped = steps.copy()
    swapped[cheap] = steps[most]
    return swapped
