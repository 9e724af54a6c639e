"""What a round's readings leave in the memory of a planner, or of many trials' at once."""

from collections.abc import Sequence

import numpy as np

from amsfl import drift
from amsfl.core import Reading
from amsfl.methods import Method
from amsfl.planning.context import PlannerContext, PlannerMemory, RoundReadings, part_over
from amsfl.planning.signals import fold_in
from amsfl.schedule import Policy


def learns(method: Method, policy: Policy) -> bool:
    """Whether rounds change what the next ones are planned by."""
    return method.facts.own_rate or method.judges or not policy.constant


def learn(contexts: Sequence[PlannerContext], rounds: Sequence[RoundReadings]) -> list[PlannerMemory]:
    """Everybody's memory after a round, each as it would be alone; cohorts of one size go together."""
    memories = [each.memory for each in rounds]
    groups: dict[tuple[int, bool], list[int]] = {}
    for place, (context, each) in enumerate(zip(contexts, rounds, strict=True)):
        if learns(context.method, context.policy):
            groups.setdefault((len(each.cohort), context.policy.readings), []).append(place)
    for places in groups.values():
        fresh = _learn_together([contexts[place] for place in places], [rounds[place] for place in places])
        for place, memory in zip(places, fresh, strict=True):
            memories[place] = memory
    return memories


def _learn_together(contexts: list[PlannerContext], rounds: list[RoundReadings]) -> list[PlannerMemory]:
    """Of federations that plan alike and had as many clients."""
    pairs = list(zip(contexts, rounds, strict=True))
    weights = np.stack([context.doubt.rows(context.weights[each.cohort]) for context, each in pairs])
    readings = [context.doubt.believed(each.reading) for context, each in pairs]
    whole = [
        drift.is_whole(reading) or not context.method.judges
        for context, reading in zip(contexts, readings, strict=True)
    ]
    rates = [
        drift.opened(each.memory.rate, reading, share) if finite else each.memory.rate
        for each, reading, share, finite in zip(rounds, readings, weights, whole, strict=True)
    ]
    rates = [
        drift.agreed(rate, each.agreement) if finite and _believes(context, each) else rate
        for rate, (context, each), finite in zip(rates, pairs, whole, strict=True)
    ]
    cohort = np.stack([each.cohort for each in rounds])
    steps = np.stack([each.decision.steps for each in rounds])
    lr = np.stack([np.broadcast_to(_number(each.decision.lr), len(each.cohort)) for each in rounds])
    reading = Reading(*map(np.stack, zip(*readings, strict=True)))
    estimates = [each.memory.estimates for each in rounds]
    if contexts[0].policy.readings:
        # the first round's steps were, more or less, as long as what its readings say
        first = np.array([_number(rate.lr) for rate in rates], float)
        own = np.where(np.isnan(lr), first[:, None], lr)
        old = drift.Estimates(*map(np.stack, zip(*estimates, strict=True)))
        fresh = drift.update(old, cohort, steps, own, reading, weights)
        estimates = [
            drift.Estimates(*new) if has_rate and finite else mine
            for mine, has_rate, finite, *new in zip(
                estimates, ~np.isnan(own[:, 0]), whole, *fresh, strict=True
            )
        ]
    before = [each.memory.reported for each in rounds]
    took = [each.decision.predicted_seconds for each in rounds]
    means = fold_in(before, weights, steps, lr, took, reading)
    judges = [
        drift.judge_round(
            each.memory.judge,
            each.cohort,
            share,
            reading,
            _over(context, each.memory),
            context.doubt.changes,
            each.decision.cut,
        )
        if context.method.judges
        else each.memory.judge
        for (context, each), share, reading in zip(pairs, weights, readings, strict=True)
    ]
    rates = [rate.lowered(judge.factor) for rate, judge in zip(rates, judges, strict=True)]
    return [PlannerMemory(*parts) for parts in zip(rates, estimates, means, judges, strict=True)]


def _believes(context: PlannerContext, each: RoundReadings) -> bool:
    """Whether a round's agreement says anything: not before clients share a rate, nor where some may lie."""
    return context.method.facts.loosest > 1 and not context.method.combine and each.decision.lr is not None


def _over(context: PlannerContext, memory: PlannerMemory) -> float:
    return part_over(context, memory, memory.judge.rounds + 1)


def _number(lr: float | None) -> float:
    return np.nan if lr is None else lr
