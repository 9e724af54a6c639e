"""Who does how many steps this round, at which learning rate, and what its readings change of that.

    memory = start(context)
    decision = decide(context, PlanRequest(memory, number, cohort, costs))
    memory = learn(context, memory, cohort, decision, reading)

Pure functions over a small memory (memory.py), the same for a simulation and a server of real clients.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from amsfl.clock import round_seconds
from amsfl.core import Plan, Reading, UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.methods import Method
from amsfl.planning import policies
from amsfl.planning.judge import is_whole, judge_round
from amsfl.planning.memory import (
    ROUNDING,
    Decision,
    Ints,
    PlannerContext,
    PlannerMemory,
    PlanRequest,
    PlanSettings,
)
from amsfl.planning.policies import Policy, Signals
from amsfl.planning.problem import MOST_STEPS, USUAL_MOST, Problem, problem
from amsfl.planning.readings import gain_and_fading, new_means, update


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
    explained = explain(problem, plan, context.policy.readings)
    return Decision(np.asarray(plan.steps), np.nan, plan.seconds, explained)


def explain(problem: Problem, plan: Plan, reads: bool) -> Json:
    """Why these steps, as a record keeps it."""
    reasons: Json = {"weights": problem.weights.tolist(), "why": list(plan.why)}
    if reads:
        reasons |= {"gain": problem.gain.tolist(), "fading": problem.fading.tolist()}
    return reasons
