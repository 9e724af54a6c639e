"""The steps with the most worth per second, or within a round's seconds.

Every second has a price: a client steps while its next step is worth more than its seconds cost. Under `sum`
that is closed in the price, t = ln(w gain / (price c)) / fading, rounded up. The price is the plan's
own worth per second (Dinkelbach's iteration), or the one at which a budget just holds; what is left goes to
the best steps that fit. Under `makespan` all steps that are done by a deadline are free, so only the deadline
is searched: of all moments at which a step ends, the one with the most worth per second.
"""

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

from amsfl.planning.problem import FLAT, TOLERANCE, Floats, Ints, Problem

FEW = 16  # steps that are not worth looking for a better price
TURNS = 100  # Dinkelbach settles in three to six
MOST_ENDINGS = 1_000_000  # of steps, that are sorted


def best_steps(p: Problem) -> Ints:
    """The best plan: within the budget, where there is one, and per second where there is none."""
    if p.clock == "makespan":
        return p.steps_by(best_deadline(p) if p.budget is None else p.budget)
    return best_rate(p) if p.budget is None else best_within(p, p.budget)


def steps_at(p: Problem, price: float) -> Ints:
    """How many steps of each client are worth more than a price a second."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.log(p.weights * p.gain / (price * p.step_seconds)) / np.maximum(p.fading, FLAT)
    return np.minimum(np.fmax(np.ceil(steps), 1.0), p.most).astype(np.int64)


def best_rate(p: Problem) -> Ints:
    """Charged the last plan's worth per second for every second, the best plan is better, or the same."""
    steps = np.ones_like(p.most)
    for _ in range(TURNS):
        rate = p.worth(steps) / p.seconds(steps)
        better = steps_at(p, rate)
        if not p.worth(better) / p.seconds(better) > rate * (1 + 1e-14):
            break
        steps = better
    return steps


def best_deadline(p: Problem) -> float:
    """The moment at which a round should end; of very many steps only those near the best one are sorted."""
    first = early = p.seconds(np.ones_like(p.most))
    late = p.seconds(p.most)
    while int((p.steps_by(late) - p.steps_by(early)).sum()) > MOST_ENDINGS and late > early * (1 + 1e-9):
        when = np.geomspace(early, late, 32)
        best = int(np.argmax([p.worth(p.steps_by(each)) / each for each in when]))
        early, late = float(when[max(best - 1, 0)]), float(when[min(best + 1, 31)])
    low = p.steps_by(early)
    more = p.steps_by(late) - low
    who = np.repeat(np.arange(len(more)), more)
    step = np.arange(len(who)) - np.repeat(np.cumsum(more) - more - low, more)
    ends = p.step_seconds[who] * (step + 1) + p.comm_seconds[who]
    with np.errstate(under="ignore"):
        worth = (p.weights * p.gain)[who] * np.exp(-p.fading[who] * step)
    order = np.argsort(ends, kind="stable")
    ends = np.maximum(np.append(early, ends[order]), first)
    return float(ends[np.argmax((p.worth(low) + np.append(0.0, np.cumsum(worth[order]))) / ends)])


def best_within(p: Problem, budget: float) -> Ints:
    """The lowest price at which all fits, and the rest of the budget to the best steps that fit it."""
    low, high = 1e-300, max(float((p.weights * p.gain / p.step_seconds).max()), 1e-300)
    limit, most, steps = budget * (1 + TOLERANCE), steps_at(p, low), np.ones_like(p.most)
    if p.seconds(most) <= limit:
        return most
    while (most - steps).sum() > FEW + len(steps) and high > low * (1 + 1e-12):
        middle = math.sqrt(low) * math.sqrt(high)
        some = steps_at(p, middle)
        if p.seconds(some) <= limit:
            high, steps = middle, some
        else:
            low, most = middle, some
    left = limit - p.seconds(steps)
    level = p.step_worth(steps) / p.step_seconds
    following = [(-level[i], i) for i in np.flatnonzero((steps < p.most) & (p.step_seconds <= left))]
    heapify(following)
    while following:
        level_now, i = heappop(following)
        if p.step_seconds[i] > left:  # nor will any later step of it fit
            continue
        steps[i] += 1
        left -= p.step_seconds[i]
        if steps[i] < p.most[i]:
            heappush(following, (level_now * math.exp(-p.fading[i]), i))
    return steps


def best_alone(p: Problem, counts: Callable[[float], float], interval: float | None) -> Ints:
    """Of clients that do not wait for each other: t maximises counts(age) U(t) / (c t + b), client by client.

    Who is away for c t + b seconds misses (c t + b) / interval moves of the server, the age of its work. A
    budget of `sum` is shared out evenly.
    """
    most = p.most
    if p.budget is not None:
        ones = np.ones_like(most)
        share = (p.budget * (1 + TOLERANCE) - p.seconds(ones)) / len(most)
        most = np.minimum(most, 1 + share // p.step_seconds) if p.clock == "sum" else p.steps_by(p.budget)
    steps = np.ones_like(p.most)
    for i, top in enumerate(most.astype(int)):
        t = np.arange(1, top + 1)
        seconds: Floats = p.step_seconds[i] * t + p.comm_seconds[i]
        value = np.cumsum(np.exp(-p.fading[i] * (t - 1))) / seconds
        if interval:
            value = value * np.array([counts(age) for age in seconds / interval])
        steps[i] = t[np.argmax(value)]
    return steps
