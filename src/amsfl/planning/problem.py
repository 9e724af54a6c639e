"""Who gets how many local steps of a round, as a problem in numbers.

Step s = 0, 1, ... of client i is worth w_i gain_i exp(-fading_i s) and takes c_i seconds; with communication
its round takes c_i t_i + b_i. All take the sum of these (`sum`: one client after another) or their maximum
(`makespan`: all at once). A plan is one whole number of steps a client, from 1 to `most`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amsfl.core import Plan, UserError, nearest
from amsfl.core.records import Json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE = 1e-9  # relative: 3 steps of 0.1 s fit a budget of 0.3 s, whatever binary fractions say
FLAT = 1e-12  # the least fading: below it all steps are worth the same
FADING = 0.05  # without readings a step is worth a twentieth less than the one before it
USUAL_MOST = 1000
MOST_STEPS = 100_000  # of one client in one round
CLOCKS = ("sum", "makespan")
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
        each = self.client_seconds(steps)
        return float(each.sum() if self.clock == "sum" else each.max())

    def step_worth(self, step: Ints) -> Floats:
        """What each client's step of this number, counted from 0, is worth."""
        with np.errstate(under="ignore"):
            return self.weights * self.gain * np.exp(-self.fading * step)

    def client_worth(self, steps: Ints) -> Floats:
        """What each client's steps are worth together, in closed form."""
        fading = np.maximum(self.fading, FLAT)
        with np.errstate(under="ignore"):
            return np.asarray(self.weights * self.gain * np.expm1(-fading * steps) / np.expm1(-fading))

    def worth(self, steps: Ints) -> float:
        """What a plan is worth."""
        return float(self.client_worth(steps).sum())

    def steps_by(self, when: float, least: int = 1) -> Ints:
        """The steps, `least` or more, that each client finishes by a deadline when all work at once."""
        spare = (when * (1 + TOLERANCE) - self.comm_seconds) / self.step_seconds
        return np.clip(spare, np.minimum(least, self.most), self.most).astype(np.int64)

    def fits(self, steps: Ints) -> bool:
        """Whether these steps keep to the budget."""
        return self.budget is None or self.seconds(steps) <= self.budget * (1 + 2 * TOLERANCE)


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
    size = max((np.size(each) for each in (weights, step_seconds, comm_seconds, gain, fading)), default=0)
    if size == 0:
        raise UserError("There are no clients to plan for; give at least one.")
    names = tuple(str(each) for each in (range(size) if clients is None else clients))
    if len(names) != size:
        raise UserError(f"There are {len(names)} client names for {size} clients; give one name per client.")
    if clock not in CLOCKS:
        raise UserError(f"Unknown clock {clock!r}{nearest(clock, CLOCKS)}.")
    limit = np.floor(_column("most", most, names))
    if (limit < 1).any() or (limit > MOST_STEPS).any():
        raise UserError(
            f"The most steps of a client are {limit.min():g}; give a number from 1 to {MOST_STEPS:,}."
        )
    made = Problem(
        _column("weight", weights, names),
        _column("step_seconds", step_seconds, names, positive=True),
        _column("comm_seconds", comm_seconds, names),
        _column("gain", gain, names),
        _column("fading", fading, names),
        limit.astype(np.int64),
        clock,
        None if budget is None else float(budget),
        names,
    )
    _check_budget(made)
    return made


def _column(name: str, values: ArrayLike, clients: Sequence[str], *, positive: bool = False) -> Floats:
    """One finite number of at least zero per client, or a sentence naming the client and the column."""
    array = np.asarray(values, np.float64)
    if array.ndim == 0:
        array = np.full(len(clients), array)
    if array.shape != (len(clients),):
        raise UserError(f"{name} has {array.size} entries for {len(clients)} clients; give one per client.")
    bad = ~np.isfinite(array) | (array < 0) | (positive & (array == 0))
    if bad.any():
        i = int(np.argmax(bad))
        need = "a finite number above 0" if positive else "a finite number of at least 0"
        raise UserError(
            f"Client {clients[i]} has {name} {array[i]:g}, but it must be {need}; "
            "correct it or leave the client out."
        )
    return array


def _check_budget(p: Problem) -> None:
    """One step per client must fit; otherwise say by how much it does not and whom to leave out."""
    if p.budget is None:
        return
    if np.isnan(p.budget):
        raise UserError("The budget is nan; give seconds, or leave --budget out.")
    once, limit = p.step_seconds + p.comm_seconds, p.budget * (1 + TOLERANCE)
    need = float(once.sum() if p.clock == "sum" else once.max())
    if need <= limit:
        return
    drop = np.flatnonzero(once > limit)
    if p.clock == "sum":  # the dearest first: the fewest clients that make room for the rest
        order = np.argsort(-once, kind="stable")
        drop = np.sort(order[: int(np.argmax(need - np.cumsum(once[order]) <= limit)) + 1])
    head = f"Budget {p.budget:.4g} s is below one step per client ({need:.4g} s)"
    if drop.size >= len(p.clients):
        raise UserError(f"{head}, and no client alone fits; raise --budget.")
    shown = ", ".join(p.clients[i] for i in drop[:10])
    more = f" and {drop.size - 10} more" if drop.size > 10 else ""
    raise UserError(f"{head}; raise --budget or drop client{'s' if drop.size > 1 else ''} {shown}{more}.")


def table(problem: Problem, plan: Plan) -> list[Json]:
    """One row per client, in the problem's order.

    Args:
        problem: What was planned for.
        plan: What came out.

    Returns:
        Rows by column.
    """
    steps = np.asarray(plan.steps)
    columns = {
        "client": list(problem.clients),
        "weight": problem.weights.tolist(),
        "step_seconds": problem.step_seconds.tolist(),
        "gain": problem.gain.tolist(),
        "fading": problem.fading.tolist(),
        "steps": steps.tolist(),
        "seconds": problem.client_seconds(steps).tolist(),
        "next_worth": problem.step_worth(steps).tolist(),
        "why": list(plan.why),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def summary(problem: Problem, plan: Plan) -> str:
    """What the plan does and what it costs, in one or two sentences.

    Args:
        problem: What was planned for.
        plan: What came out.

    Returns:
        Text.
    """
    budget, steps = problem.budget, np.asarray(plan.steps)
    how = "one client after another" if problem.clock == "sum" else "all clients at once"
    over = budget is not None and plan.seconds > budget * (1 + 1e-6)
    allowed = "" if budget is None or over else f" of the {budget:.4g} s allowed"
    text = f"{steps.size} clients take {int(steps.sum())} steps in {plan.seconds:.4g} s{allowed}, {how}."
    if budget is not None and over:
        return f"{text} That is {plan.seconds - budget:.4g} s over the budget of {budget:.4g} s."
    return f"{text} They are worth {problem.worth(steps) / plan.seconds:.4g} a second."
