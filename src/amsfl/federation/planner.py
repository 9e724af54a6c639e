"""Who does how many steps this round, at which learning rate: pure functions over a small memory.

A planner is told costs (seconds) and, after the round, readings; what it must remember between rounds
is a dict that JSON can hold, so checkpoints and real servers keep it the same way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from amsfl import drift, schedule
from amsfl.clock import Costs
from amsfl.core import Reading
from amsfl.federation import signals
from amsfl.federation.config import RunConfig

Memory = dict[str, Any]
Ints = np.ndarray[Any, np.dtype[Any]]

T_MAX = 64  # beyond this no estimate was ever seen to hold
CONSTANT = ("fixed", "fill", "speed")  # policies that only look at the costs: planned once for a cohort
READERS = ("price", "greedy", "exact", "printed", "wang")  # policies that need the gradient's change


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


def policy_of(config: RunConfig) -> str:
    """`auto`: the paper's algorithm in mode paper, worth per second for AMSFL, fixed steps for the rest."""
    if config.policy != "auto":
        return config.policy
    if config.method != "amsfl":
        return "fixed"
    return "printed" if config.mode == "paper" else "price"


def planner(config: RunConfig, weights: Any) -> Planner:
    """The planner that the settings ask for; `weights` are all clients' shares of the data."""
    name = policy_of(config)
    # a rate from the readings caps Polyak strides; without those (polyak=0), lr is the user's
    own_rate = config.method == "amsfl" and config.mode == "amsfl" and config.options.get("polyak", 1.0) > 0
    reads = name in READERS
    last: dict[Any, Decision] = {}

    def start() -> Memory:
        rate = drift.Rate() if own_rate else drift.Rate(config.lr)
        return {"rate": list(rate), "spent": 0.0} | _dump(drift.start(len(weights) if reads else 0))

    def decide(memory: Memory, number: int, cohort: Ints, costs: Costs) -> Decision:
        if name not in CONSTANT:
            return plan(memory, number, cohort, costs)
        key = (cohort.tobytes(), costs.step_seconds.tobytes(), costs.comm_seconds.tobytes())
        if key not in last:  # only the latest: cohorts of thousands would pile up
            last.clear()
            last[key] = plan(memory, number, cohort, costs)
        return last[key]

    def plan(memory: Memory, number: int, cohort: Ints, costs: Costs) -> Decision:
        lr = memory["rate"][0]
        gain: Any = 1.0
        fade: Any = None
        if reads:
            gain, fade = drift.coefficients(_load(memory), cohort, lr)
        budget = config.budget
        if budget is None and name in ("printed", "fill"):  # they spend a budget: FedAvg's round, then
            budget = signals.round_time(costs, cohort, config.steps, config.clock)
        problem = schedule.problem(
            weights[cohort],
            costs.step_seconds[cohort],
            costs.comm_seconds[cohort],
            gain,
            fade,
            curve="geometric" if reads else "linear",
            kind=config.clock,  # type: ignore[arg-type]  # checked by RunConfig
            budget=budget,
            t_max=T_MAX if reads else schedule.T_MAX,
            clients=[str(who) for who in cohort],
        )
        found = schedule.policy(name, **signals.settings(name, config, memory, number, problem))(problem)
        return Decision(np.asarray(found.steps), lr, found.seconds, _explain(problem, found, reads))

    def learn(memory: Memory, cohort: Ints, decision: Decision, reading: Reading) -> Memory:
        if name in CONSTANT and not own_rate:
            return memory
        fresh = dict(memory, spent=memory["spent"] + decision.predicted_seconds)
        fresh |= signals.heard(memory, weights[cohort], decision, reading)
        rate = drift.Rate(*memory["rate"])
        if own_rate:
            rate = drift.next_rate(rate, reading, weights[cohort])
            fresh["rate"] = list(rate)
        if reads:
            lr = decision.lr or rate.lr  # the first round's steps were of this length, more or less
            estimates = drift.update(_load(memory), cohort, decision.steps, lr, reading, weights[cohort])
            fresh |= _dump(estimates)
        return fresh

    return Planner(start, decide, learn)


def _explain(problem: schedule.Problem, plan: Any, reads: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"weights": problem.weights.tolist(), "why": list(plan.why)}
    if reads:
        told |= {
            "gain": problem.gain.tolist(),
            "drift": problem.drift.tolist(),
            "price": plan.price,
            "objective": plan.objective,
            "bound": plan.bound,
        }
    return told


def _dump(estimates: drift.Estimates) -> Memory:
    memory = {}
    for key, part in estimates._asdict().items():
        values = part.astype(object)
        values[np.isnan(part)] = None
        memory[key] = values.tolist()
    return memory


def _load(memory: Memory) -> drift.Estimates:
    return drift.Estimates(*(np.array(memory[key], float) for key in drift.Estimates._fields))
