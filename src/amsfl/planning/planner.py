"""Who does how many steps this round, at which learning rate, and what its readings change of that.

    memory = start(context)
    decision = decide(context, memory, number, cohort)
    memory = learn(context, memory, cohort, decision, reading)

Pure functions over a small memory: records of numbers, which a checkpoint keeps as JSON.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock import Costs, round_seconds
from amsfl.core import Combine, Plan, Reading, UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.methods import Method
from amsfl.planning import policies
from amsfl.planning.doubt import (
    plausible_changes,
    plausible_readings,
    plausible_rows,
    plausible_seconds,
    plausible_steps,
    plausible_worth,
)
from amsfl.planning.learning import (
    UNKNOWN,
    Estimates,
    Judge,
    Means,
    gain_and_fading,
    is_whole,
    judge_round,
    new_estimates,
    new_judge,
    new_means,
    update,
)
from amsfl.planning.problem import FADING, MOST_STEPS, USUAL_MOST, Floats, Policy, Problem, Signals, problem

Ints = np.ndarray[Any, np.dtype[Any]]
Settings = Any  # a run's (settings/definitions.py)
Stale = Callable[[float], float] | None  # where clients do not wait, what work counts by its age

ROUNDING = 1e-9  # 0.1 x 60 / 2 is a little above 3


class PlannerMemory(NamedTuple):
    """All that a planner remembers."""

    lr: float  # cooling and decay aside
    estimates: Estimates
    means: Means = UNKNOWN
    judge: Judge = new_judge(0)
    planned_seconds: float = 0.0  # of all rounds that are over

    def dump(self) -> Json:
        """As JSON holds it: None where a client was never read."""
        judge = self.judge._asdict() | {"reference": _plain(self.judge.reference)}
        return self._asdict() | {"estimates": [_plain(column) for column in self.estimates], "judge": judge}

    @classmethod
    def load(cls, parts: Json) -> "PlannerMemory":
        own = parts["judge"]
        lists = {name: tuple(own[name]) for name in ("backs", "restarts")}
        judge = Judge(**own | lists | {"reference": np.array(own["reference"], float)})
        estimates = Estimates(*(np.array(column, float) for column in parts["estimates"]))
        return cls(**parts | {"estimates": estimates, "means": tuple(parts["means"]), "judge": judge})


class Decision(NamedTuple):
    steps: Ints  # one per client of the cohort
    lr: float
    predicted_seconds: float
    explain: Json


class PlannerContext(NamedTuple):
    """What a planner plans by: the settings, all clients' shares of the data, and what never changes."""

    config: Settings
    method: Method
    policy: Policy
    weights: Floats
    costs: Costs  # as clients say
    steps: Ints  # of every client, where the policy does not choose them
    passes: Floats  # steps of every client that are the usual passes over its rows
    most: int  # steps of anybody: who asks for more than usual gets it
    rounds: int | None  # of the run, as far as anybody knows
    stale: Stale
    rule: Combine | None  # over uploads: where there is one, what clients say is doubted, too
    last: dict[Hashable, Decision]  # the latest cohort's only: those of thousands would pile up


def planner_context(
    config: Settings,
    method: Method,
    policy: Policy,
    weights: Floats,
    costs: Costs,
    rows: Floats | float = np.inf,
    stale: Stale = None,
    rule: Combine | None = None,
) -> PlannerContext:
    """Of a policy; `weights` are all clients' shares of the data, `rows` how many they have."""
    rows_each = np.broadcast_to(np.asarray(rows, float), len(weights))
    passes, steps = NUMBERS.passes * rows_each / config.batch, steps_of(config, rows_each)
    most = min(max(USUAL_MOST, int(steps.max())), MOST_STEPS)
    rest = most, config.known_rounds, stale, rule, dict[Hashable, Decision]()
    return PlannerContext(config, method, policy, weights, costs, steps, passes, *rest)


def steps_of(config: Settings, rows: Any) -> Ints:
    """Steps of clients with so many rows: the setting, or what their epochs come to."""
    if config.epochs is None:
        return np.full(len(rows), config.steps)
    if not np.isfinite(rows).all():
        raise UserError(
            "Epochs are passes over a client's rows, and here nobody says how many; give --steps."
        )
    exact = config.epochs * np.asarray(rows) / config.batch
    return np.asarray(np.clip(np.ceil(exact - ROUNDING), 1, MOST_STEPS), np.int64)


def start(context: PlannerContext) -> PlannerMemory:
    """At the user's learning rate, or the method's own."""
    clients, lr = len(context.weights), context.config.lr
    return PlannerMemory(
        context.method.facts.lr if lr is None else lr,
        new_estimates(clients if context.policy.readings else 0),
        judge=new_judge(clients if context.method.judges else 0),
    )


def policy_of(config: Settings, method: Method, given: Policy | None = None) -> Policy:
    """The one that was passed, the one that the settings name, or the one that the method plans by."""
    if given is not None:
        return given
    named = method.facts.policy if config.policy == "auto" else config.policy
    return policies.policy(named)


def decide(
    context: PlannerContext, memory: PlannerMemory, number: int, cohort: Ints, allowed: Ints | None = None
) -> Decision:
    """Everybody's steps in this round; `allowed`: the most of each by privacy, None: no such limit.

    A policy that looks at costs alone plans once for a cohort.
    """
    config, policy, last = context.config, context.policy, context.last
    lr, key = rate_now(context, memory, number), None
    if policy.constant:
        allows = b"" if allowed is None else np.minimum(allowed, context.most).tobytes()
        key = cohort.tobytes(), allows
        if key in last:
            return last[key]._replace(lr=lr)
    top = _most(context, memory, cohort, allowed)
    ceiling = top if allowed is None else np.minimum(allowed, top)
    posed = _pose(context, memory, cohort, ceiling, lr)
    plan = _checked(policy, posed, _signals(context, memory, number, cohort))
    if allowed is not None:  # not every rule keeps to the most, and this one is a promise
        steps = np.minimum(plan.steps, ceiling)
        if policy.readings and posed.budget is None and config.seconds is None:
            # epsilon that is left at the end of the run is lost, so saving seconds is no reason to keep it
            steps = np.where(allowed <= top, ceiling, steps)
        plan = _cut(posed, plan, steps, "epsilon", (steps >= ceiling) & (ceiling < top))
    if context.rule is not None:
        believed = plausible_steps(plan.steps)
        plan = _cut(posed, plan, believed, "doubt", believed < plan.steps)
    explained: Json = {"weights": posed.weights.tolist(), "why": list(plan.why)}
    if policy.readings:
        explained |= {"gain": posed.gain.tolist(), "fading": posed.fading.tolist()}
    made = Decision(np.asarray(plan.steps), lr, plan.seconds, explained)
    if policy.constant:
        last.clear()
        last[key] = made
    return made


def _cut(posed: Problem, plan: Plan, steps: Ints, word: str, where: Any) -> Plan:
    """The plan with these steps, and why those differ that do."""
    if (steps == plan.steps).all() and not where.any():
        return plan
    why = np.where(where, word, plan.why).tolist()
    return plan._replace(steps=steps, seconds=posed.seconds(steps), why=tuple(why))


def rate_now(context: PlannerContext, memory: PlannerMemory, number: int) -> float:
    """The learning rate of a round: decayed round by round, and cooled over the run by methods that do."""
    config = context.config
    rate: float = memory.lr * config.lr_decay**number
    if not context.method.facts.cools:
        return rate
    by_rounds = number / context.rounds if context.rounds else 0.0
    by_seconds = memory.planned_seconds / config.seconds if config.seconds else 0.0
    return rate * max(1 - max(by_rounds, by_seconds), NUMBERS.least)


def learns(method: Method, policy: Policy) -> bool:
    """Whether rounds change what the next ones are planned by."""
    return method.judges or not policy.constant


def learn(
    context: PlannerContext, memory: PlannerMemory, cohort: Ints, decision: Decision, reading: Reading
) -> PlannerMemory:
    """The memory after a round and the judge's verdict on it."""
    judges, readings, rule = context.method.judges, context.policy.readings, context.rule
    weights = context.weights[cohort]
    modest: Callable[[Floats], Floats] = np.asarray
    if rule is not None:
        weights, reading = plausible_rows(weights, rule), plausible_readings(reading)
        modest = partial(plausible_changes, attackers=rule.attackers)
    estimates, means = memory.estimates, memory.means
    if not judges or is_whole(reading):
        did = decision.steps, decision.lr, reading
        means = new_means(means, weights, *did) if context.policy.constants else means
        estimates = update(estimates, cohort, *did, weights) if readings else estimates
    seconds = memory.planned_seconds + decision.predicted_seconds
    if not judges:
        return PlannerMemory(memory.lr, estimates, means, memory.judge, seconds)
    judge = judge_round(memory.judge, cohort, weights, reading, modest)
    return PlannerMemory(memory.lr * judge.factor, estimates, means, judge, seconds)


def _checked(policy: Policy, posed: Problem, signals: Signals) -> Plan:
    """What a policy plans, which may be anybody's: a whole step or more of everybody."""
    plan = policy.plan(posed, signals)
    if not isinstance(plan, Plan):
        raise UserError(
            f"Policy {policy.name!r} gave a {type(plan).__name__}, not a plan; end it with "
            "return as_plan(problem, steps), from amsfl.planning."
        )
    steps = np.asarray(plan.steps)
    if steps.shape != posed.gain.shape or not ((steps >= 1) & (steps == np.floor(steps))).all():
        raise UserError(
            f"Policy {policy.name!r} planned {steps.tolist()} for {len(posed.gain)} clients; a plan has a "
            "whole number of steps for each, 1 at least."
        )
    return plan


def _most(context: PlannerContext, memory: PlannerMemory, cohort: Ints, allowed: Ints | None) -> Ints:
    """Steps at most, whatever privacy says."""
    if not context.policy.readings:
        return np.full(len(cohort), context.most)
    if allowed is not None:  # noise keeps everybody from learning rows by heart
        return np.full(len(cohort), max(NUMBERS.steps, context.config.steps))
    passes = memory.judge.passes * context.passes[cohort]
    return np.clip(np.ceil(passes - ROUNDING), 1, NUMBERS.steps)


def _pose(context: PlannerContext, memory: PlannerMemory, cohort: Ints, most: Ints, lr: float) -> Problem:
    config, rule, costs = context.config, context.rule, context.costs
    budget = config.budget
    if budget is None and context.policy.spends:
        budget = round_seconds(costs, cohort, context.steps[cohort])[config.clock]
    weights, seconds = context.weights[cohort], costs.step_seconds[cohort]
    worth: tuple[Any, Any] = (1.0, FADING)
    if context.policy.readings:
        worth = gain_and_fading(memory.estimates, cohort, lr)
    if rule is not None:
        weights, seconds = plausible_rows(weights, rule), plausible_seconds(seconds, rule.attackers)
        worth = plausible_worth(*worth, rule.attackers) if context.policy.readings else worth
    link, names = costs.comm_seconds[cohort], cohort.tolist()
    return problem(
        weights, seconds, link, *worth, most=most, clock=config.clock, budget=budget, clients=names
    )


def _signals(context: PlannerContext, memory: PlannerMemory, number: int, cohort: Ints) -> Signals:
    own = context.steps[cohort]
    # before the first reading every rule sees a bowl of slope and curvature one
    slope, curvature, convexity = memory.means
    return Signals(
        round=number,
        steps=round(own.mean()),
        lr=memory.lr,
        slope=1.0 if slope is None else slope,
        curvature=1.0 if curvature is None else curvature,
        convexity=convexity,
        own_steps=own,
        interval=memory.planned_seconds / number if context.stale and number else None,
        stale=context.stale,
    )


def _plain(column: Floats) -> list[float | None]:
    values = column.astype(object)
    values[np.isnan(column)] = None
    return list(values)
