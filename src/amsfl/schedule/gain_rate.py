"""The most gain per second of clients one after another where nothing is limited: of many problems at once.

Nobody's steps then stand in another's way: at a rate lambda for every second each client takes the steps that
are worth more than lambda c_i, in closed form (problem.count), and Dinkelbach's iteration needs no search.
Problems of as many clients are rows of one array: fifty trials of a study cost about as much as one. Arrays
are [problems, clients], and every row's numbers are those that it would have alone, to the bit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from amsfl.core import Plan
from amsfl.core.records import Json
from amsfl.schedule.problem import (
    REASONS,
    Floats,
    Ints,
    Problem,
    client_seconds,
    count_worthwhile,
    gains,
    useful,
    worthless,
)

COLUMNS = ("weights", "step_seconds", "comm_seconds", "gain", "drift", "t_max")
TURNS = 100  # Dinkelbach settles in three to six


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
