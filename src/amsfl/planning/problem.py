"""Who gets how many local steps of a round, as a problem in numbers, and its best solution.

Step s = 0, 1, ... of client i is worth w_i gain_i exp(-fading_i s) and takes c_i seconds; with communication
its round takes c_i t_i + b_i. All take the sum of these (`sum`: one client after another) or their maximum
(`makespan`: all at once). A plan is one whole number of steps a client, from 1 to `most`.

The best one has the most worth per second, or the most within a round's seconds. Every second has a price: a
client steps while its next step is worth more than its seconds cost. Under `sum` that is closed in the price,
t = ln(w gain / (price c)) / fading, rounded up. The price is the plan's own worth per second (Dinkelbach's
iteration), or the one at which a budget just holds; what is left goes to the best steps that fit. Under
`makespan` all steps that are done by a deadline are free, so only the deadline is searched: of all moments at
which a step ends, the one with the most worth per second.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amsfl.clock import CLOCKS, check_clock
from amsfl.core import Plan, UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-9  # relative: 3 steps of 0.1 s fit a budget of 0.3 s, whatever binary fractions say
FLAT = 1e-12  # the least fading: below it all steps are worth the same
FADING = 0.05  # without readings a step is worth a twentieth less than the one before it
FEW = 16  # steps that are not worth looking for a better price
TURNS = 100  # Dinkelbach settles in three to six
MOST_ENDINGS = 1_000_000  # of steps, that are sorted
USUAL_MOST = 1000
MOST_STEPS = 100_000  # of one client in one round
REASONS = {
    "budget": "the budget is used up",
    "rate": "one more step would lower the worth per second",
    "cap": "reached its largest number of steps",
    "epsilon": "its privacy allows no more (epsilon)",
    "doubt": "half as many again as the mean: under a robust rule nobody gets more",
    "fixed": "the rule gives it this many",
}


class Problem(NamedTuple):
    """What a policy looks at; `problem` builds and checks one. Arrays hold one entry a client."""

    weights: Floats
    step_seconds: Floats
    comm_seconds: Floats
    gain: Floats
    fading: Floats
    most: Ints
    clock: str
    budget: float | None  # seconds of a round; None: the most worth per second
    clients: tuple[str, ...]

    def client_seconds(self, steps: Ints) -> Floats:
        """Each client's own c t + b."""
        return self.step_seconds * steps + self.comm_seconds

    def seconds(self, steps: Ints) -> float:
        """How long the round takes, by the problem's clock."""
        each = self.step_seconds * steps + self.comm_seconds
        return float(each.sum() if self.clock == "sum" else each.max())

    def step_worth(self, step: Ints) -> Floats:
        """What each client's step of this number, counted from 0, is worth."""
        with np.errstate(under="ignore"):
            return self.weights * self.gain * np.exp(-self.fading * step)

    def worth(self, steps: Ints) -> float:
        """What a plan is worth, each client's steps together in closed form."""
        fading = np.maximum(self.fading, FLAT)
        with np.errstate(under="ignore"):
            each = self.weights * self.gain * np.expm1(-fading * steps) / np.expm1(-fading)
        return float(each.sum())

    def steps_by(self, when: float, least: int = 1) -> Ints:
        """The steps, `least` or more, that each client finishes by a deadline when all work at once."""
        spare = (when * (1 + TOLERANCE) - self.comm_seconds) / self.step_seconds
        return np.clip(spare, np.minimum(least, self.most), self.most).astype(np.int64)

    def fits(self, steps: Ints) -> bool:
        """Whether these steps keep to the budget."""
        return self.budget is None or self.seconds(steps) <= self.budget * (1 + 2 * TOLERANCE)


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


def as_plan(problem: Problem, steps: Ints, why: Sequence[str] | None = None) -> Plan:
    """What a policy returns.

    Args:
        problem: What was planned for.
        steps: One number a client.
        why: What stopped each, a word of `REASONS`.

    Returns:
        Steps, the seconds that they take, and why.
    """
    return Plan(steps, problem.seconds(steps), tuple(why or ("fixed",) * len(steps)))


def problem(
    weights: ArrayLike,
    step_seconds: ArrayLike,
    comm_seconds: ArrayLike = 0.0,
    gain: ArrayLike = 1.0,
    fading: ArrayLike = FADING,
    *,
    most: ArrayLike = USUAL_MOST,
    clock: str = "sum",
    budget: float | None = None,
    clients: Sequence[str] | None = None,
) -> Problem:
    """A checked Problem. Every column is one number per client, or one number for all.

    Args:
        weights: Shares of the data, on any scale.
        step_seconds: Of one local step.
        comm_seconds: Of a round's communication.
        gain: Worth of a first step.
        fading: How fast that fades: the next step is worth exp(-fading) times as much.
        most: Most steps.
        clock: `sum`, one client after another, or `makespan`, all at once.
        budget: Seconds of a round; without one, the most worth per second.
        clients: Names.

    Returns:
        The problem, for any policy.
    """
    size = max(map(np.size, (weights, step_seconds, comm_seconds, gain, fading)))
    if size == 0:
        raise UserError("There are no clients to plan for; give at least one.")
    names = tuple(map(str, range(size) if clients is None else clients))
    if len(names) != size:
        raise UserError(f"There are {len(names)} client names for {size} clients; give one name per client.")
    if clock not in CLOCKS:
        check_clock(clock)  # which says what is wrong with it
    (limit,) = _columns({"most": most}, names)
    limit = np.floor(limit)
    if not ((limit >= 1) & (limit <= MOST_STEPS)).all():
        raise UserError(
            f"The most steps of a client are {limit.min():g}; give a number from 1 to {MOST_STEPS:,}."
        )
    columns = {"weight": weights, "step_seconds": step_seconds, "comm_seconds": comm_seconds}
    columns |= {"gain": gain, "fading": fading}
    checked = _columns(columns, names)
    seconds = None if budget is None else float(budget)
    made = Problem(*checked, limit.astype(np.int64), clock, seconds, names)  # type: ignore[arg-type, call-arg]
    if budget is not None:
        _check_budget(made, float(budget))
    return made


def _columns(columns: Mapping[str, ArrayLike], clients: Sequence[str]) -> list[Floats]:
    """One finite number of at least zero per client, or a sentence naming the client and the column."""
    arrays = []
    for name, values in columns.items():
        array = np.asarray(values, np.float64)
        if array.ndim == 0:
            array = np.full(len(clients), array)
        if array.shape != (len(clients),):
            raise UserError(
                f"{name} has {array.size} entries for {len(clients)} clients; give one per client."
            )
        fine = np.isfinite(array) & (array > 0 if name == "step_seconds" else array >= 0)
        if not fine.all():
            i = int(np.argmin(fine))
            need = "above 0" if name == "step_seconds" else "of at least 0"
            raise UserError(
                f"Client {clients[i]} has {name} {array[i]:g}, but it must be a finite number {need}; "
                "correct it or leave the client out."
            )
        arrays.append(array)
    return arrays


def _check_budget(p: Problem, budget: float) -> None:
    """One step per client must fit; otherwise say by how much it does not and whom to leave out."""
    if np.isnan(budget):
        raise UserError("The budget is nan; give seconds, or leave --budget out.")
    once, limit = p.step_seconds + p.comm_seconds, budget * (1 + TOLERANCE)
    need = float(once.sum() if p.clock == "sum" else once.max())
    if need <= limit:
        return
    drop = np.flatnonzero(once > limit)
    if p.clock == "sum":  # the dearest first: the fewest clients that make room for the rest
        order = np.argsort(-once, kind="stable")
        drop = np.sort(order[: int(np.argmax(need - np.cumsum(once[order]) <= limit)) + 1])
    head = f"Budget {budget:.4g} s is below one step per client ({need:.4g} s)"
    if drop.size >= len(p.clients):
        raise UserError(f"{head}, and no client alone fits; raise --budget.")
    shown = ", ".join(p.clients[i] for i in drop[:10])
    more = f" and {drop.size - 10} more" if drop.size > 10 else ""
    raise UserError(f"{head}; raise --budget or drop client{'s' if drop.size > 1 else ''} {shown}{more}.")


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
    best = steps = np.ones_like(p.most)
    rate = 0.0
    for _ in range(TURNS):
        now = p.worth(steps) / p.seconds(steps)
        if not now > rate * (1 + 1e-14):
            break
        best, rate = steps, now
        steps = steps_at(p, rate)
    return best


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


def price() -> Policy:
    """The default: the steps with the most worth per second, or within a budget.

    Where clients do not wait for each other each is planned alone, by its own worth per second.
    """

    def plan(problem: Problem, signals: Signals) -> Plan:
        alone = signals.stale is not None
        steps = best_alone(problem, signals.stale, signals.interval) if signals.stale else best_steps(problem)
        stopped = "rate" if alone or problem.budget is None else "budget"
        return as_plan(problem, steps, np.where(steps >= problem.most, "cap", stopped).tolist())

    return Policy("price", plan, readings=True, steps=False, constants=False)
