"""Prices for what is limited: the Lagrangian of the step-allocation problem.

At prices mu >= 0 the clients part company: each takes its steps worth more than offset_i + mu . cost_i, in
closed form. D(mu) = max_t [U(t) - offset . t + mu . (room - cost (t - 1))] bounds the optimum from above
for every mu; its least value is that of the relaxation in which a step may be cut in pieces.
`cap` is the steps a client would take at no price.
"""

from typing import NamedTuple

import numpy as np

from amsfl.schedule.problem import Floats, Ints, Problem, count_worthwhile, gains

CUTS = 60  # with two or three limits the cutting planes settle in 10 to 30


class Charges(NamedTuple):
    """What steps cost: of every summed limit, and a charge on top (Dinkelbach's rate times c)."""

    cost: Floats  # [limits, clients] of one step
    room: Floats  # [limits] what is left after one step each
    offset: Floats  # [clients] a step

    def of(self, clients: Ints, room: Floats) -> "Charges":
        """Of some clients, with so much room."""
        return Charges(self.cost[:, clients], room, self.offset[clients])

    def only(self, limits: Ints) -> "Charges":
        """By some of the limits."""
        return Charges(self.cost[limits], self.room[limits], self.offset)


def spent(cost: Floats, steps: Ints) -> Floats:
    """cost . steps for every limit. Not by BLAS, whose threads cost more than they gain here."""
    return np.asarray((cost * steps).sum(axis=1))


def value(problem: Problem, steps: Ints, offset: Floats) -> float:
    """U(t) - offset . t."""
    return float((gains(problem, steps) - offset * steps).sum())


def bound_at(problem: Problem, cap: Ints, charges: Charges, mu: Floats) -> tuple[float, Ints]:
    """D(mu), and the steps that attain it."""
    cost, room, offset = charges
    steps = count_worthwhile(problem, offset + (mu[:, None] * cost).sum(axis=0), cap)
    slack = room - spent(cost, steps - 1)
    return value(problem, steps, offset) + float(mu @ slack), steps


def tighten(cap: Ints, cost: Floats, room: Floats) -> Ints:
    """Caps that no single limit can let a client pass, even if it had all the room to itself."""
    for per_step, left in zip(cost, room, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = 1.0 + np.floor(left / per_step)
        cap = np.minimum(cap, np.where(per_step > 0, alone, cap)).astype(np.int64)
    return cap


def binding(cap: Ints, cost: Floats, room: Floats) -> Ints:
    """The limits that the steps wanted at no price at all would break. The others can never bind."""
    return np.flatnonzero(spent(cost, cap - 1) > room)


def multipliers(problem: Problem, cap: Ints, charges: Charges) -> tuple[Floats, float]:
    """Prices that (nearly) minimise D over several limits at once, and D there.

    Kelley's cutting planes: every plan seen gives a line below D, U(t) - offset . t + mu . slack(t), and the
    lowest point of their upper envelope is tried next. D needs n operations, the little program none.
    """
    from scipy.optimize import linprog  # slow to import, and rarely needed

    scale, offset = np.where(charges.room > 0, charges.room, 1.0), charges.offset
    cost, room = charges.cost / scale[:, None], charges.room / scale
    charges, k = Charges(cost, room, offset), room.size
    first, steps = bound_at(problem, cap, charges, np.zeros(k))
    best, best_mu = first, np.zeros(k)
    # D(mu) >= value(one step each) + mu . room, so prices above this cannot be better than none.
    once = value(problem, np.ones_like(cap), offset)
    ceiling = np.where(room > 0, (first - once) / np.where(room > 0, room, 1.0), 0.0)
    lines, heights = [], []
    for _ in range(CUTS):
        lines.append(room - spent(cost, steps - 1))
        heights.append(value(problem, steps, offset))
        answer = linprog(
            np.append(np.zeros(k), 1.0),
            A_ub=np.column_stack([np.array(lines), -np.ones(len(lines))]),
            b_ub=-np.array(heights),
            bounds=[*((0.0, float(c)) for c in ceiling), (None, None)],
            method="highs",
        )
        if answer.x is None:
            break
        mu = np.clip(answer.x[:k], 0.0, ceiling)
        here, steps = bound_at(problem, cap, charges, mu)
        if here < best:
            best, best_mu = here, mu
        if best - float(answer.fun) <= 1e-9 * max(abs(best), 1e-300):
            break
    return best_mu / scale, best
