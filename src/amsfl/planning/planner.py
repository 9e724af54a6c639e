"""Who does how many steps this round, at which learning rate, and what its readings change of that.

    memory = start(context)
    decision = decide(context, PlanRequest(memory, number, cohort, costs))
    memory = learn(context, memory, cohort, decision, reading)

Pure functions over a small memory: records of numbers, which a checkpoint keeps as JSON.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np

from amsfl.clock import Costs, round_seconds
from amsfl.core import Combine, Plan, Reading, UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.methods import Method
from amsfl.planning import policies
from amsfl.planning.judge import Judge, is_whole, judge_round, new_judge
from amsfl.planning.policies import Policy, Signals
from amsfl.planning.problem import MOST_STEPS, USUAL_MOST, Floats, Problem, problem
from amsfl.planning.readings import (
    Believed,
    Estimates,
    Means,
    believing,
    gain_and_fading,
    new_estimates,
    new_means,
    update,
)

Ints = np.ndarray[Any, np.dtype[Any]]
Stale = Callable[[float], float] | None  # where clients do not wait, what work counts by its age

ROUNDING = 1e-9  # 0.1 x 60 / 2 is a little above 3


class PlanSettings(Protocol):
    """What is planned by, of a run's settings (settings/training.py)."""

    policy: str
    clock: str
    budget: float | None
    seconds: float | None
    steps: int
    epochs: float | None
    batch: int
    lr: float | None
    lr_decay: float

    @property
    def known_rounds(self) -> int | None: ...


class PlannerMemory(NamedTuple):
    """All that a planner remembers."""

    lr: float  # cooling and decay aside
    estimates: Estimates
    means: Means = Means()
    judge: Judge = new_judge(0)
    planned_seconds: float = 0.0  # of all rounds that are over

    def dump(self) -> Json:
        """As JSON holds it: None where a client was never read."""
        parts = self._asdict()
        for name in ("estimates", "means", "judge"):
            parts[name] = parts[name]._asdict()
        parts["estimates"] = {key: _plain(column) for key, column in parts["estimates"].items()}
        parts["judge"]["reference"] = _plain(parts["judge"]["reference"])
        return parts

    @classmethod
    def load(cls, parts: Json) -> "PlannerMemory":
        columns = {key: np.array(column, float) for key, column in parts["estimates"].items()}
        judge = Judge(**parts["judge"])
        judge = judge._replace(
            reference=np.array(judge.reference, float), backs=(*judge.backs,), restarts=(*judge.restarts,)
        )
        means = Means(**parts["means"])
        return cls(parts["lr"], Estimates(**columns), means, judge, parts["planned_seconds"])


class Decision(NamedTuple):
    steps: Ints  # one per client of the cohort
    lr: float
    predicted_seconds: float
    explain: Json


class PlannerContext(NamedTuple):
    """What a planner plans by: the settings, all clients' shares of the data, and what never changes."""

    config: PlanSettings
    method: Method
    policy: Policy
    weights: Floats
    steps: Ints  # of every client, where the policy does not choose them
    passes: Floats  # steps of every client that are the usual passes over its rows
    believed: Believed
    stale: Stale
    last: dict[tuple[str, Hashable], Any]  # the latest cohort's only: those of thousands would pile up


class PlanRequest(NamedTuple):
    """What a decision is made from; `allowed`: the most steps of each by privacy, None: no such limit."""

    memory: PlannerMemory
    number: int
    cohort: Ints
    costs: Costs
    allowed: Ints | None = None


def planner_context(
    config: PlanSettings,
    method: Method,
    policy: Policy,
    weights: Floats,
    rows: Floats | float = np.inf,
    stale: Stale = None,
    rule: Combine | None = None,
) -> PlannerContext:
    """Of a policy; `weights` are all clients' shares of the data, `rows` how many they have."""
    rows_each = np.broadcast_to(np.asarray(rows, float), len(weights))
    passes, steps = NUMBERS.passes * rows_each / config.batch, steps_of(config, rows_each)
    return PlannerContext(config, method, policy, weights, steps, passes, believing(rule), stale, {})


def steps_of(config: PlanSettings, rows: Any) -> Ints:
    """Steps of clients with so many rows: the setting, or what their epochs come to."""
    if config.epochs is None:
        return np.full(len(rows), config.steps)
    if not np.isfinite(rows).all():
        raise UserError(
            "Epochs are passes over a client's rows, and here nobody says how many; give --steps."
        )
    exact = config.epochs * np.asarray(rows) / config.batch
    return np.clip(np.ceil(exact - ROUNDING), 1, MOST_STEPS).astype(np.int64)


def start(context: PlannerContext) -> PlannerMemory:
    """At the user's learning rate, or the method's own."""
    clients, lr = len(context.weights), context.config.lr
    return PlannerMemory(
        context.method.facts.lr if lr is None else lr,
        new_estimates(clients if context.policy.readings else 0),
        judge=new_judge(clients if context.method.judges else 0),
    )


def policy_of(config: PlanSettings, method: Method, given: Policy | None = None) -> Policy:
    """The one that was passed, the one that the settings name, or the one that the method plans by."""
    if given is not None:
        return given
    named = method.facts.policy if config.policy == "auto" else config.policy
    return policies.policy(named)


def decide(context: PlannerContext, request: PlanRequest) -> Decision:
    """Everybody's steps; a policy that looks at costs alone plans once for a cohort."""
    constant, key = context.policy.constant, _key(context, request)
    made = context.last.get(("decision", key)) if constant else None
    if made is None:
        posed = _pose(context, request)
        plan = _checked(context.policy, posed.problem, _signals(context, request))
        made = _decision(context, request, posed, plan)
        if constant:
            context.last.clear()
            context.last["decision", key] = made
    return made._replace(lr=rate_now(context, request))


def rate_now(context: PlannerContext, request: PlanRequest) -> float:
    """The learning rate of a round: decayed round by round, and cooled over the run by methods that do."""
    config, memory, number = context.config, request.memory, request.number
    rate = memory.lr * config.lr_decay**number
    if not context.method.facts.cools:
        return rate
    by_rounds = number / last if (last := config.known_rounds) else 0.0
    by_seconds = memory.planned_seconds / config.seconds if config.seconds else 0.0
    return rate * max(1 - max(by_rounds, by_seconds), NUMBERS.least)


def learns(method: Method, policy: Policy) -> bool:
    """Whether rounds change what the next ones are planned by."""
    return method.judges or not policy.constant


def learn(
    context: PlannerContext, memory: PlannerMemory, cohort: Ints, decision: Decision, reading: Reading
) -> PlannerMemory:
    """The memory after a round and the judge's verdict on it."""
    if not learns(context.method, context.policy):
        return memory
    weights = context.believed.rows(context.weights[cohort])
    believed = context.believed.readings(reading)
    memory = memory._replace(planned_seconds=memory.planned_seconds + decision.predicted_seconds)
    if is_whole(believed) or not context.method.judges:
        did = decision.steps, decision.lr, believed
        memory = memory._replace(means=new_means(memory.means, weights, *did))
        if context.policy.readings:
            memory = memory._replace(estimates=update(memory.estimates, cohort, *did, weights))
    if not context.method.judges:
        return memory
    judge = judge_round(memory.judge, cohort, weights, believed, context.believed.changes)
    return memory._replace(lr=memory.lr * judge.factor, judge=judge)


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


class PosedProblem(NamedTuple):
    problem: Problem
    top: Ints  # steps at most, and with what privacy allows
    ceiling: Ints


def _key(context: PlannerContext, request: PlanRequest) -> Hashable:
    """What a plan depends on besides readings."""
    costs, allowed = request.costs, request.allowed
    allows = b"" if allowed is None else np.minimum(allowed, _most(context)).tobytes()
    return (
        request.cohort.tobytes(),
        request.memory.judge.passes,
        costs.step_seconds.tobytes(),
        costs.comm_seconds.tobytes(),
        allows,
    )


def _most(context: PlannerContext) -> int:
    """Steps of anybody: who asks for more gets them."""
    return min(max(USUAL_MOST, int(context.steps.max())), MOST_STEPS)


def _pose(context: PlannerContext, request: PlanRequest) -> PosedProblem:
    """The problem; of what readings have no part in, the latest is kept."""
    if not context.policy.readings:
        return _pose_anew(context, request)
    key = "problem", _key(context, request)
    if key not in context.last:
        context.last.clear()
        context.last[key] = _pose_anew(context, request)
    before: PosedProblem = context.last[key]
    lr = rate_now(context, request)
    gain, fading = context.believed.worth(*gain_and_fading(request.memory.estimates, request.cohort, lr))
    return before._replace(problem=before.problem._replace(gain=gain, fading=fading))


def _pose_anew(context: PlannerContext, request: PlanRequest) -> PosedProblem:
    config, policy, (_, _, cohort, costs, allowed) = context.config, context.policy, request
    budget = config.budget
    if budget is None and policy.spends:
        budget = round_seconds(costs, cohort, context.steps[cohort])[config.clock]
    if not policy.readings:
        top = np.full(len(cohort), _most(context))
    elif allowed is None:
        passes = request.memory.judge.passes * context.passes[cohort]
        top = np.clip(np.ceil(passes - ROUNDING), 1, NUMBERS.steps)
    else:  # noise keeps everybody from learning rows by heart
        top = np.full(len(cohort), max(NUMBERS.steps, config.steps))
    ceiling = top if allowed is None else np.minimum(allowed, top)
    posed = problem(
        context.believed.rows(context.weights[cohort]),
        context.believed.seconds(costs.step_seconds[cohort]),
        costs.comm_seconds[cohort],
        clock=config.clock,
        budget=budget,
        most=ceiling,
        clients=[str(who) for who in cohort],
    )
    return PosedProblem(posed, top, ceiling)


def _signals(context: PlannerContext, request: PlanRequest) -> Signals:
    memory, number, own = request.memory, request.number, context.steps[request.cohort]
    # before the first reading every rule sees a bowl of slope and curvature one
    slope, curvature, convexity = memory.means
    signals = Signals(
        round=number,
        steps=round(own.mean()),
        lr=memory.lr,
        slope=1.0 if slope is None else slope,
        curvature=1.0 if curvature is None else curvature,
        convexity=convexity,
        own_steps=own,
    )
    if context.stale is None:
        return signals
    interval = memory.planned_seconds / number if number else None
    return signals._replace(interval=interval, stale=context.stale)


def _decision(context: PlannerContext, request: PlanRequest, posed: PosedProblem, plan: Plan) -> Decision:
    problem, top, ceiling = posed
    if request.allowed is not None:  # not every rule keeps to the most, and this one is a promise
        steps = np.minimum(plan.steps, ceiling)
        if context.policy.readings and problem.budget is None and context.config.seconds is None:
            # epsilon that is left at the end of the run is lost, so saving seconds is no reason to keep it
            steps = np.where(request.allowed <= top, ceiling, steps)
        why = np.where((steps >= ceiling) & (ceiling < top), "epsilon", plan.why)
        plan = plan._replace(steps=steps, seconds=problem.seconds(steps), why=tuple(why.tolist()))
    believed = context.believed.steps(plan.steps)
    if (believed < plan.steps).any():
        why = np.where(believed < plan.steps, "doubt", plan.why)
        plan = plan._replace(steps=believed, seconds=problem.seconds(believed), why=tuple(why.tolist()))
    explained: Json = {"weights": problem.weights.tolist(), "why": list(plan.why)}
    if context.policy.readings:
        explained |= {"gain": problem.gain.tolist(), "fading": problem.fading.tolist()}
    return Decision(np.asarray(plan.steps), np.nan, plan.seconds, explained)


def _plain(column: Floats) -> list[float | None]:
    values = column.astype(object)
    values[np.isnan(column)] = None
    return list(values)
