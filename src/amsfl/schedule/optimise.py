"""From a solver for fixed limits to a plan, with a budget or without one.

Without a budget U(t)/T(t), gain per second, is maximised. Under `sum` by Dinkelbach's iteration: with rate
lambda charged for every second, t maximises U - lambda T; its own rate is the next lambda. Where nothing is
limited, nobody's steps stand in another's way: each client takes those that are worth more than lambda c_i,
in closed form (problem.count_worthwhile), and problems of as many clients are rows of one array, each with
the numbers that it would have alone, to the bit. Under `makespan` by a search over deadlines: all plans
between two deadlines are worth at most bound(later)/earlier a second, which rules out most of them.

A plan's bound is on U within the budget; without a budget it is the best rate anybody could reach, times
the plan's own seconds, so that gap/seconds certifies the rate.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from amsfl.core import Plan
from amsfl.core.records import Json
from amsfl.schedule.lagrange import Charges, spent
from amsfl.schedule.price import Solution
from amsfl.schedule.price import solve as by_price
from amsfl.schedule.problem import (
    COLUMNS,
    REASONS,
    Floats,
    Ints,
    Problem,
    by_deadline,
    caps,
    client_seconds,
    count_worthwhile,
    gains,
    rate,
    seconds,
    steps_between,
    summed_limits,
    useful,
    utility,
    worth,
    worthless,
)

Solver = Callable[[Problem, Ints, Charges], Solution]
TURNS = 100  # Dinkelbach settles in three to six
DEADLINES = 64  # deadlines tried with an approximate solver and further resources
EVENTS = 1024  # so few step endings are sorted rather than searched further


def optimise(problem: Problem, solve: Solver = by_price, *, proven: bool = False) -> Plan:
    """The plan a solver leads to. `proven`: its bounds are its values, so search until nothing is better."""
    if solve is by_price and is_unlimited(problem):
        return plan_all([problem])[0]
    if problem.budget is None:
        by_sum = problem.kind == "sum"
        steps, best = _rate(problem, solve) if by_sum else _deadline(problem, solve, proven)
        return explain_steps(problem, steps, best * seconds(problem, steps), rate(problem, steps))
    charges = Charges(*summed_limits(problem), np.zeros_like(problem.gain))
    answer = solve(problem, caps(problem), charges)
    price = float(answer.prices[0]) if problem.kind == "sum" else _slope(problem, answer.steps)
    return explain_steps(problem, answer.steps, answer.bound, price)


def optimise_all(problems: Sequence[Problem]) -> list[Plan]:
    """`optimise` of every one; those without limits together."""
    some: dict[tuple[str, int], list[int]] = {}
    for place, each in enumerate(problems):
        if is_unlimited(each):
            some.setdefault((each.curve, each.weights.size), []).append(place)
    plans = {
        place: plan
        for places in some.values()
        for place, plan in zip(places, plan_all([problems[place] for place in places]), strict=True)
    }
    return [plans[place] if place in plans else optimise(each) for place, each in enumerate(problems)]


def is_unlimited(problem: Problem) -> bool:
    return problem.kind == "sum" and problem.budget is None and not problem.resources


def plan_all(problems: Sequence[Problem]) -> list[Plan]:
    """The plans of problems without limits that share their curve and have as many clients each."""
    columns: Json = {name: np.stack([getattr(each, name) for each in problems]) for name in COLUMNS}
    whole = replace(problems[0], **columns)
    steps, ceiling = _rates(whole)
    took, total = client_seconds(whole, steps).sum(-1), gains(whole, steps).sum(-1)
    why = np.where(worthless(whole, steps), 3, np.where(steps >= whole.t_max, 2, 1))
    numbers = zip(
        took.tolist(), total.tolist(), (ceiling * took).tolist(), (total / took).tolist(), strict=True
    )
    words = map(tuple, REASONS[why].tolist())
    return [Plan(mine, *each, reasons) for mine, each, reasons in zip(steps, numbers, words, strict=True)]


def _rates(problem: Problem) -> tuple[Ints, Floats]:
    """Dinkelbach: steps, and of every problem a rate that no plan exceeds."""
    top, comm = useful(problem), problem.comm_seconds.sum(-1)
    steps = np.ones_like(top)
    shortest = client_seconds(problem, steps).sum(-1)
    best, ceiling = gains(problem, steps).sum(-1) / shortest, np.full(len(top), np.inf)
    going = np.full(len(top), True)
    for _ in range(TURNS):
        charge = best[:, None] * problem.step_seconds
        candidate = count_worthwhile(problem, charge, top)
        gained = gains(problem, candidate)
        # U - best T <= excess for every plan, so U/T <= best + excess/T.
        excess = (gained - charge * candidate).sum(-1) - best * comm
        high = best + np.where(excess < 0, 0.0, excess) / shortest
        ceiling = np.where(going & (high < ceiling), high, ceiling)
        reached = gained.sum(-1) / client_seconds(problem, candidate).sum(-1)
        going &= ~(reached <= best * (1 + 1e-14))
        if not going.any():
            break
        steps, best = np.where(going[:, None], candidate, steps), np.where(going, reached, best)
    return steps, np.where(best > ceiling, best, ceiling)


def explain_steps(problem: Problem, steps: Ints, bound: float, price: float) -> Plan:
    """The record of steps that were chosen by worth: what stopped whom."""
    following = worth(problem, steps)
    why = np.zeros(steps.size, np.int64)
    if problem.budget is None:
        cost, room = summed_limits(problem)
        fits = (cost <= (room - spent(cost, steps - 1))[:, None]).all(0)
        why[fits | (following <= price * problem.step_seconds)] = 1
    why[steps >= problem.t_max] = 2
    why[worthless(problem, steps)] = 3
    return Plan(
        steps, seconds(problem, steps), utility(problem, steps), bound, price, tuple(REASONS[why].tolist())
    )


def as_plan(problem: Problem, steps: Ints, why: tuple[str, ...] | None = None) -> Plan:
    """The record of steps that were not chosen by worth, held against the best that could be had.

    Args:
        problem: What was planned for.
        steps: One number a client.
        why: What stopped each, in a word of `REASON_TEXTS`.

    Returns:
        Steps, seconds, objective and a bound on it.
    """
    why = ("fixed",) * len(steps) if why is None else why
    best = optimise(problem)
    took = seconds(problem, steps)
    bound = best.bound if problem.budget is not None else best.bound / best.seconds * took
    return Plan(steps, took, utility(problem, steps), bound, best.price, why)


def _slope(problem: Problem, steps: Ints) -> float:
    """Worth of one more second for all clients at once that the deadline stopped."""
    late = steps < useful(problem)
    return float((worth(problem, steps) / problem.step_seconds)[late].sum())


def _rate(problem: Problem, solve: Solver) -> tuple[Ints, float]:
    """Dinkelbach: steps, and a rate that no plan exceeds."""
    cost, room = summed_limits(problem)
    top, comm = useful(problem), float(problem.comm_seconds.sum())
    steps = np.ones_like(top)
    shortest, best, ceiling = seconds(problem, steps), rate(problem, steps), np.inf
    for _ in range(TURNS):
        answer = solve(problem, top, Charges(cost, room, best * problem.step_seconds))
        # U - best T <= excess for every plan, so U/T <= best + excess/T.
        excess = answer.bound - best * comm
        ceiling = min(ceiling, best + max(excess, 0.0) / shortest)
        reached = rate(problem, answer.steps)
        if reached <= best * (1 + 1e-14):
            break
        steps, best = answer.steps, reached
    return steps, max(ceiling, best)


def _deadline(problem: Problem, solve: Solver, proven: bool) -> tuple[Ints, float]:
    """Branch and bound over deadlines: steps, and a rate that no plan exceeds."""
    charges = Charges(*summed_limits(problem), np.zeros_like(problem.gain))
    top, room = useful(problem), charges.room
    tried: dict[float, Solution] = {}
    best: tuple[float, Ints] = (-1.0, top)

    def at(deadline: float) -> Solution:
        nonlocal best
        if deadline not in tried:
            tried[deadline] = solve(problem, by_deadline(problem, top, deadline), charges)
            reached = rate(problem, tried[deadline].steps)
            if reached > best[0]:
                best = (reached, tried[deadline].steps)
        return tried[deadline]

    first, last = seconds(problem, np.ones_like(top)), seconds(problem, top)
    at(first)
    heap = [(-at(last).bound / first, first, last)]
    while heap and -heap[0][0] > best[0] * (1 + 1e-12):
        if room.size and not proven and len(tried) >= DEADLINES:
            break
        _, early, late = heapq.heappop(heap)
        low, high = by_deadline(problem, top, early), by_deadline(problem, top, late)
        events = int((high - low).sum())
        if not room.size and events <= max(EVENTS, 2 * top.size):
            when = _best_ending(problem, low, high, utility(problem, low))
            at(when)
            continue
        middle = float(np.sqrt(early * late))
        if events <= EVENTS:
            inside = _endings(problem, low, high)[1]
            inside = inside[(inside > early * (1 + 1e-9)) & (inside < late * (1 - 1e-9))]
            if inside.size == 0:
                continue
            middle = float(np.partition(inside, inside.size // 2)[inside.size // 2])
        for a, b in ((early, middle), (middle, late)):
            if a < b:
                heapq.heappush(heap, (-at(b).bound / a, a, b))
    open_rate = -heap[0][0] if heap else 0.0
    return best[1], max(open_rate, best[0], max(a.bound / d for d, a in tried.items()))


def _endings(problem: Problem, low: Ints, high: Ints) -> tuple[Floats, Floats]:
    """Worth and finishing time of every client's steps number low+1 to high."""
    who, s, step_worth = steps_between(problem, low, high)
    return step_worth, problem.step_seconds[who] * (s + 1) + problem.comm_seconds[who]


def _best_ending(problem: Problem, low: Ints, high: Ints, start: float) -> float:
    """The finishing time between two deadlines at which the gain per second is highest."""
    add, when = _endings(problem, low, high)
    order = np.argsort(when, kind="stable")
    return float(when[order][np.argmax((start + np.cumsum(add[order])) / when[order])])
