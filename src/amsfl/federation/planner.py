"""Who does how many steps this round, at which learning rate: pure functions over a small memory.

A planner is told costs (seconds) and, after the round, readings; what it must remember between rounds
is a record of numbers, so checkpoints and real servers keep it the same way.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from amsfl import drift, schedule
from amsfl.clock import Costs, round_seconds
from amsfl.core import Plan, Reading
from amsfl.drift import plausible
from amsfl.federation.config import STEPS_AT_MOST, T_MAX, Training
from amsfl.federation.signals import Heard, heard
from amsfl.methods import Method
from amsfl.schedule import Policy

Ints = np.ndarray[Any, np.dtype[Any]]

PASSES = 3  # over a client's own rows, in one round: more of them teach it its rows by heart
FEWEST = 2  # steps that the smallest client may take


class Memory(NamedTuple):
    """All that a planner remembers."""

    rate: drift.Rate
    estimates: drift.Estimates
    heard: Heard = Heard()

    def dump(self) -> dict[str, dict[str, Any]]:
        """As JSON holds it: None where a client was never read."""
        parts = {name: part._asdict() for name, part in self._asdict().items()}
        parts["estimates"] = {key: _plain(column) for key, column in parts["estimates"].items()}
        return parts

    @classmethod
    def load(cls, parts: dict[str, dict[str, Any]]) -> "Memory":
        columns = {key: np.array(column, float) for key, column in parts["estimates"].items()}
        return cls(drift.Rate(**parts["rate"]), drift.Estimates(**columns), Heard(**parts["heard"]))


class Decision(NamedTuple):
    steps: Ints  # one per client of the cohort
    lr: float | None  # None: nobody knows one yet, and every client's first step is its longest
    predicted_seconds: float
    explain: dict[str, Any]


class Planner(NamedTuple):
    """start() -> memory; decide(memory, round, cohort, costs, allowed) -> Decision; learn(...) -> memory.

    `allowed` are the most steps of each of the cohort by what privacy they have left; None: no such limit.
    """

    start: Callable[[], Memory]
    decide: Callable[..., Decision]
    learn: Callable[[Memory, Ints, Decision, Reading], Memory]


def policy_of(config: Training, method: Method, given: Policy | None = None) -> Policy:
    """The one that was passed, the one that the settings name, or the one that the method plans by."""
    if given is not None:
        return given
    named = method.policy if config.policy == "auto" else config.policy
    return schedule.policy(named, **config.policy_options)


def planner(
    config: Training,
    method: Method,
    policy: Policy,
    weights: Any,
    rows: Any = np.inf,
    stale: Callable[[float], float] | None = None,
    spend: Mapping[str, float] | None = None,
    share: int | None = None,
) -> Planner:
    """The planner of a policy; `weights` are all clients' shares of the data, `rows` how many they have.

    `stale`, where clients do not wait for each other, says what work counts by its age. `spend` is what a
    round may spend of all that `costs.accounts` names; with `share`, so many clients do.
    """
    last: dict[Any, Decision] = {}
    doubt = plausible.doubt(method.combine)
    asked = max(config.steps, *config.policy_options.values(), 0)
    most = min(max(schedule.T_MAX, int(asked)), STEPS_AT_MOST)  # who asks for more steps gets them
    own = np.floor(PASSES * np.broadcast_to(np.asarray(rows, float), len(weights)) / config.batch)
    limits = np.clip(own, FEWEST, T_MAX)

    def start() -> Memory:
        rate = drift.Rate() if method.own_rate else drift.Rate(config.lr)
        return Memory(rate, drift.start(len(weights) if policy.readings else 0))

    def decide(
        memory: Memory, number: int, cohort: Ints, costs: Costs, allowed: Ints | None = None
    ) -> Decision:
        if not policy.constant:
            return plan(memory, number, cohort, costs, allowed)
        allows = b"" if allowed is None else np.minimum(allowed, most).tobytes()
        key = (cohort.tobytes(), costs.step_seconds.tobytes(), costs.comm_seconds.tobytes(), allows)
        if key not in last:  # only the latest: cohorts of thousands would pile up
            last.clear()
            last[key] = plan(memory, number, cohort, costs, allowed)
        return last[key]._replace(lr=memory.rate.lr)

    def plan(memory: Memory, number: int, cohort: Ints, costs: Costs, allowed: Ints | None) -> Decision:
        lr = memory.rate.lr
        gain: Any = 1.0
        fade: Any = None
        if policy.readings:
            gain, fade = doubt.worth(*drift.coefficients(memory.estimates, cohort, lr))
        budget = config.budget
        if budget is None and policy.spends:
            equal = np.full(len(cohort), config.steps)
            budget = round_seconds(costs, cohort, equal)[config.clock]
        top = limits[cohort] if policy.readings else np.full(len(cohort), most)
        if policy.readings and allowed is not None:  # noise keeps everybody from learning rows by heart
            top = np.full(len(cohort), max(T_MAX, config.steps))
        ceiling = top if allowed is None else np.minimum(allowed, top)
        problem = schedule.problem(
            doubt.rows(weights[cohort]),
            doubt.seconds(costs.step_seconds[cohort]),
            costs.comm_seconds[cohort],
            gain,
            fade,
            curve="geometric" if policy.readings else "linear",
            kind=config.clock,  # type: ignore[arg-type]  # checked by the settings
            budget=budget,
            t_max=ceiling,
            resources=resources(costs, cohort, spend or {}, share),
            clients=[str(who) for who in cohort],
        )
        signals = memory.heard.signals(number, config.steps, config.lr if lr is None else lr, config.seconds)
        if stale is not None:
            interval = memory.heard.spent / number if number else None
            signals = signals._replace(interval=interval, stale=stale)
        found = policy.plan(problem, signals)
        if allowed is not None:  # not every rule knows a t_max, and this one is a promise
            steps = np.minimum(found.steps, ceiling)
            if policy.readings and budget is None and config.seconds is None and not spend:
                # what is left of epsilon in the end was worth nothing: nobody saves it for the seconds' sake
                steps = np.where(allowed <= top, ceiling, steps)
            why = np.where((steps >= ceiling) & (ceiling < top), "epsilon", found.why)
            took = schedule.seconds(problem, steps)
            found = found._replace(steps=steps, seconds=took, why=tuple(why.tolist()))
        return Decision(np.asarray(found.steps), lr, found.seconds, explain(problem, found, policy.readings))

    def learn(memory: Memory, cohort: Ints, decision: Decision, reading: Reading) -> Memory:
        if policy.constant and not method.own_rate:
            return memory
        reading, shares = doubt.believed(reading), doubt.rows(weights[cohort])
        rate, estimates, steps = memory.rate, memory.estimates, decision.steps
        if method.own_rate:
            rate = drift.next_rate(rate, reading, shares, doubt.opening)
        # the first round's steps were, more or less, as long as what its readings say
        lr = rate.lr if decision.lr is None else decision.lr
        if policy.readings and lr is not None:
            estimates = drift.update(estimates, cohort, steps, lr, reading, shares)
        told = heard(memory.heard, shares, steps, decision.lr, decision.predicted_seconds, reading)
        return Memory(rate, estimates, told)

    return Planner(start, decide, learn)


def resources(
    costs: Costs, cohort: Ints, limits: Mapping[str, float], share: int | None
) -> list[schedule.Resource]:
    """Limits besides seconds as the scheduler takes them; clients that start by themselves have a part."""
    part = 1.0 if share is None else len(cohort) / share
    return [
        schedule.Resource(name, account.per_step[cohort], account.per_round[cohort], limit * part)
        for name, limit in limits.items()
        for account in [costs.accounts[name]]
    ]


def explain(problem: schedule.Problem, plan: Plan, reads: bool) -> dict[str, Any]:
    """Why these steps, as a record keeps it."""
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


def _plain(column: Any) -> list[float | None]:
    values = column.astype(object)
    values[np.isnan(column)] = None
    return list(values)
