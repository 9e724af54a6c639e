"""Who does how many steps this round, at which learning rate: pure functions over a small memory.

A planner is told costs (seconds) and, if it asks for them, readings; what it must remember between
rounds is a dict that JSON can hold, so checkpoints and real servers keep it the same way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from amsfl import drift, schedule
from amsfl.clock import Costs
from amsfl.core import Reading

Memory = dict[str, Any]
Ints = np.ndarray[Any, np.dtype[Any]]


class Decision(NamedTuple):
    steps: Ints  # one per client of the cohort
    lr: float
    predicted_seconds: float
    explain: dict[str, Any]


class Planner(NamedTuple):
    """start() -> memory; decide(memory, round, cohort, costs) -> Decision; learn(...) -> memory."""

    start: Callable[[], Memory]
    decide: Callable[[Memory, int, Ints, Costs], Decision]
    learn: Callable[[Memory, Ints, Decision, Reading], Memory]


def fixed(steps: int, lr: float, kind: str) -> Planner:
    """The same steps for everybody, every round."""

    def decide(memory: Memory, number: int, cohort: Ints, costs: Costs) -> Decision:
        each = np.full(len(cohort), steps)
        return Decision(each, lr, _seconds(costs, cohort, each, kind), {})

    return Planner(dict, decide, lambda memory, cohort, decision, reading: memory)


def adaptive(weights: Any, lr: float, kind: str, budget: float | None, t_max: int) -> Planner:
    """Steps by worth per second, from GDA estimates of every client's gain and drift."""

    def start() -> Memory:
        return _dump(drift.start(len(weights)))

    def decide(memory: Memory, number: int, cohort: Ints, costs: Costs) -> Decision:
        estimates = _load(memory)
        gain, fade = drift.coefficients(estimates, cohort)
        if not drift.known(estimates):
            each = np.full(len(cohort), FIRST_STEPS)
            return Decision(each, lr, _seconds(costs, cohort, each, kind), {})
        problem = schedule.problem(
            weights=weights[cohort],
            step_seconds=costs.step_seconds[cohort],
            comm_seconds=costs.comm_seconds[cohort],
            gain=gain,
            drift=fade,
            curve="geometric",
            kind=kind,
            budget=budget,
            t_max=t_max,
        )
        plan = schedule.POLICIES["price"]()(problem)
        explain = {
            "gain": gain.tolist(),
            "drift": fade.tolist(),
            "price": plan.price,
            "objective": plan.objective,
            "bound": plan.bound,
            "why": list(plan.why),
        }
        return Decision(np.asarray(plan.steps), lr, plan.seconds, explain)

    def learn(memory: Memory, cohort: Ints, decision: Decision, reading: Reading) -> Memory:
        return _dump(drift.update(_load(memory), cohort, decision.steps, reading))

    return Planner(start, decide, learn)


FIRST_STEPS = 2  # enough for a reading, little to lose


def _seconds(costs: Costs, cohort: Ints, steps: Ints, kind: str) -> float:
    each = costs.step_seconds[cohort] * steps + costs.comm_seconds[cohort]
    return float(each.sum() if kind == "sum" else each.max())


def _dump(estimates: drift.Estimates) -> Memory:
    return {
        key: [None if np.isnan(v) else float(v) for v in part] for key, part in estimates._asdict().items()
    }


def _load(memory: Memory) -> drift.Estimates:
    return drift.Estimates(
        *(np.array([np.nan if v is None else v for v in memory[key]]) for key in drift.Estimates._fields)
    )
