"""Who does how many steps this round, at which learning rate: of one federation, or of many trials at once.

Trials of a study are planned in lockstep, and for five clients calling numpy is nearly all that a plan takes.
So a policy that can is asked for all of their plans together; each is what it would be alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl import drift, schedule
from amsfl.clock import Costs, round_seconds
from amsfl.core import Plan
from amsfl.planning.context import Decision, Ints, PlannerContext, PlanRequest
from amsfl.settings.definitions import PLANNED_STEPS_AT_MOST, STEPS_AT_MOST


def decide(desks: Sequence[PlannerContext], asked: Sequence[PlanRequest]) -> list[Decision]:
    """Everybody's decision, each as it would be alone; a policy that can plans all of them together."""
    found: dict[int, Decision] = {}
    groups: dict[Any, list[int]] = {}
    for place, (desk, each) in enumerate(zip(desks, asked, strict=True)):
        known = desk.last.get(("decision", _key(desk, each))) if desk.policy.constant else None
        if known is None:
            groups.setdefault(desk.policy.together or place, []).append(place)
        else:
            found[place] = known._replace(lr=each.memory.rate.lr)
    for together, places in groups.items():
        posed = [_posed(desks[place], asked[place]) for place in places]
        signals = [_signals(desks[place], asked[place]) for place in places]
        if callable(together):
            plans = together([each.problem for each in posed], signals)
        else:
            plans = [desks[places[0]].policy.plan(posed[0].problem, signals[0])]
        for place, own, plan in zip(places, posed, plans, strict=True):
            desk, each = desks[place], asked[place]
            found[place] = _decision(desk, each, own, plan)
            if desk.policy.constant:
                desk.last.clear()
                desk.last["decision", _key(desk, each)] = found[place]
    return [found[place] for place in range(len(asked))]


class PosedProblem(NamedTuple):
    problem: schedule.Problem
    budget: float | None
    top: Ints  # steps at most, and with what privacy allows
    ceiling: Ints


def _key(desk: PlannerContext, asked: PlanRequest) -> Any:
    """What a plan depends on besides readings."""
    costs, allowed = asked.costs, asked.allowed
    allows = b"" if allowed is None else np.minimum(allowed, _most(desk)).tobytes()
    spends = tuple(part.tobytes() for name in desk.spend for part in costs.accounts[name])
    return (
        asked.cohort.tobytes(),
        costs.step_seconds.tobytes(),
        costs.comm_seconds.tobytes(),
        allows,
        spends,
    )


def _most(desk: PlannerContext) -> int:
    """Steps of anybody: who asks for more gets them."""
    asked = max(desk.config.steps, *desk.config.policy_options.values(), 0)
    return min(max(schedule.T_MAX, int(asked)), STEPS_AT_MOST)


def _posed(desk: PlannerContext, asked: PlanRequest) -> PosedProblem:
    """The problem; of what readings have no part in, the latest is kept."""
    if not desk.policy.readings:
        return _fresh(desk, asked)
    key = "problem", _key(desk, asked)
    if key not in desk.last:
        desk.last.clear()
        desk.last[key] = _fresh(desk, asked)
    known: PosedProblem = desk.last[key]
    worth = desk.doubt.worth(*drift.coefficients(asked.memory.estimates, asked.cohort, asked.memory.rate.lr))
    return known._replace(problem=schedule.with_worth(known.problem, *worth))


def _fresh(desk: PlannerContext, asked: PlanRequest) -> PosedProblem:
    config, policy, (_, _, cohort, costs, allowed) = desk.config, desk.policy, asked
    budget = config.budget
    if budget is None and policy.spends:
        equal = np.full(len(cohort), config.steps)
        budget = round_seconds(costs, cohort, equal)[config.clock]
    top = desk.limits[cohort] if policy.readings else np.full(len(cohort), _most(desk))
    if policy.readings and allowed is not None:  # noise keeps everybody from learning rows by heart
        top = np.full(len(cohort), max(PLANNED_STEPS_AT_MOST, config.steps))
    ceiling = top if allowed is None else np.minimum(allowed, top)
    problem = schedule.problem(
        desk.doubt.rows(desk.weights[cohort]),
        desk.doubt.seconds(costs.step_seconds[cohort]),
        costs.comm_seconds[cohort],
        curve="geometric" if policy.readings else "linear",
        kind=config.clock,  # type: ignore[arg-type]  # checked by the settings
        budget=budget,
        t_max=ceiling,
        resources=resources(costs, cohort, desk.spend, desk.share),
        clients=[str(who) for who in cohort],
    )
    return PosedProblem(problem, budget, top, ceiling)


def _signals(desk: PlannerContext, asked: PlanRequest) -> schedule.Signals:
    config, memory, number = desk.config, asked.memory, asked.number
    lr = config.lr if memory.rate.lr is None else memory.rate.lr
    signals = memory.heard.signals(number, config.steps, lr, config.seconds)
    if desk.stale is None:
        return signals
    interval = memory.heard.spent / number if number else None
    return signals._replace(interval=interval, stale=desk.stale)


def _decision(desk: PlannerContext, asked: PlanRequest, posed: PosedProblem, found: Plan) -> Decision:
    config, reads, (problem, budget, top, ceiling) = desk.config, desk.policy.readings, posed
    if asked.allowed is not None:  # not every rule knows a t_max, and this one is a promise
        steps = np.minimum(found.steps, ceiling)
        if reads and budget is None and config.seconds is None and not desk.spend:
            # what is left of epsilon in the end was worth nothing: nobody saves it for the seconds' sake
            steps = np.where(asked.allowed <= top, ceiling, steps)
        why = np.where((steps >= ceiling) & (ceiling < top), "epsilon", found.why)
        took = schedule.seconds(problem, steps)
        found = found._replace(steps=steps, seconds=took, why=tuple(why.tolist()))
    told = explain(problem, found, reads)
    return Decision(np.asarray(found.steps), asked.memory.rate.lr, found.seconds, told)


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
