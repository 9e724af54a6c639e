"""Who does how many steps this round, at which learning rate: of one federation, or of many trials."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from amsfl import drift, schedule
from amsfl.clock import round_seconds
from amsfl.core import Plan, UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.planning.context import ROUNDING, Decision, Ints, PlannerContext, PlanRequest, part_over
from amsfl.settings.definitions import STEPS_AT_MOST


def decide(contexts: Sequence[PlannerContext], requests: Sequence[PlanRequest]) -> list[Decision]:
    """Everybody's decision, each as it would be alone."""
    return [_decide(*pair) for pair in zip(contexts, requests, strict=True)]


def _decide(context: PlannerContext, request: PlanRequest) -> Decision:
    constant = context.policy.constant
    kept = context.last.get(("decision", _key(context, request))) if constant else None
    if kept is not None:
        return _at_its_rate(context, request, kept)
    posed = _pose(context, request)
    plan = _checked(context.policy, posed.problem, _signals(context, request))
    made = _at_its_rate(context, request, _decision(context, request, posed, plan))
    if constant:
        context.last.clear()
        context.last["decision", _key(context, request)] = made
    return made


def _checked(policy: schedule.Policy, problem: schedule.Problem, signals: schedule.Signals) -> Plan:
    """What a policy plans, which may be anybody's: a whole step or more of everybody."""
    plan = policy.plan(problem, signals)
    if not isinstance(plan, Plan):
        raise UserError(
            f"Policy {policy.name!r} gave a {type(plan).__name__}, not a plan; end it with "
            "return as_plan(problem, steps), from amsfl.schedule."
        )
    steps = np.asarray(plan.steps)
    if steps.shape != problem.gain.shape or not ((steps >= 1) & (steps == np.floor(steps))).all():
        raise UserError(
            f"Policy {policy.name!r} planned {steps.tolist()} for {len(problem.gain)} clients; a plan has a "
            "whole number of steps for each, 1 at least."
        )
    return plan


class PosedProblem(NamedTuple):
    problem: schedule.Problem
    budget: float | None
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
    asked = max(int(context.steps.max()), *context.config.policy_options.values(), 0)
    return min(max(schedule.USUAL_MOST, int(asked)), STEPS_AT_MOST)


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
    worth = context.doubt.worth(*drift.gain_and_fading(request.memory.estimates, request.cohort, lr))
    return before._replace(problem=before.problem._replace(gain=worth[0], fading=worth[1]))


def _pose_anew(context: PlannerContext, request: PlanRequest) -> PosedProblem:
    config, policy, (_, _, cohort, costs, allowed) = context.config, context.policy, request
    budget = config.budget
    if budget is None and policy.spends:
        budget = round_seconds(costs, cohort, context.steps[cohort])[config.clock]
    own = np.ceil(request.memory.judge.passes * context.passes[cohort] - ROUNDING)
    top = np.clip(own, 1, NUMBERS.steps) if policy.readings else np.full(len(cohort), _most(context))
    if policy.readings and allowed is not None:  # noise keeps everybody from learning rows by heart
        top = np.full(len(cohort), max(NUMBERS.steps, config.steps))
    ceiling = top if allowed is None else np.minimum(allowed, top)
    problem = schedule.problem(
        context.doubt.rows(context.weights[cohort]),
        context.doubt.seconds(costs.step_seconds[cohort]),
        costs.comm_seconds[cohort],
        clock=config.clock,
        budget=budget,
        most=ceiling,
        clients=[str(who) for who in cohort],
    )
    return PosedProblem(problem, budget, top, ceiling)


def _signals(context: PlannerContext, request: PlanRequest) -> schedule.Signals:
    _config, memory, number = context.config, request.memory, request.number
    own = context.steps[request.cohort]
    signals = memory.reported.signals(number, round(own.mean()), memory.lr)._replace(own_steps=own)
    if context.stale is None:
        return signals
    interval = memory.reported.spent / number if number else None
    return signals._replace(interval=interval, stale=context.stale)


def _decision(context: PlannerContext, request: PlanRequest, posed: PosedProblem, plan: Plan) -> Decision:
    config, reads, (problem, budget, top, ceiling) = context.config, context.policy.readings, posed
    if request.allowed is not None:  # not every rule keeps to the most, and this one is a promise
        steps = np.minimum(plan.steps, ceiling)
        if reads and budget is None and config.seconds is None:
            # epsilon that is left at the end of the run is lost, so saving seconds is no reason to keep it
            steps = np.where(request.allowed <= top, ceiling, steps)
        why = np.where((steps >= ceiling) & (ceiling < top), "epsilon", plan.why)
        took = problem.seconds(steps)
        plan = plan._replace(steps=steps, seconds=took, why=tuple(why.tolist()))
    believed = context.doubt.steps(plan.steps)
    if (believed < plan.steps).any():
        why = np.where(believed < plan.steps, "doubt", plan.why)
        plan = plan._replace(steps=believed, seconds=problem.seconds(believed), why=tuple(why.tolist()))
    return Decision(np.asarray(plan.steps), np.nan, plan.seconds, explain(problem, plan, reads))


def _at_its_rate(context: PlannerContext, request: PlanRequest, decision: Decision) -> Decision:
    """With the learning rate of this round, which a plan that is kept does not have."""
    return decision._replace(lr=rate_now(context, request))


def rate_now(context: PlannerContext, request: PlanRequest) -> float:
    """The learning rate of a round: decayed round by round, and cooled over the run by methods that do."""
    rate = request.memory.lr * context.config.lr_decay**request.number
    if not context.method.facts.cools:
        return rate
    return rate * max(1 - part_over(context, request.memory, request.number), NUMBERS.least)


def explain(problem: schedule.Problem, plan: Plan, reads: bool) -> Json:
    """Why these steps, as a record keeps it."""
    reasons: Json = {"weights": problem.weights.tolist(), "why": list(plan.why)}
    if reads:
        reasons |= {"gain": problem.gain.tolist(), "fading": problem.fading.tolist()}
    return reasons
