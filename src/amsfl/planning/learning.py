"""What a round's readings leave in the memory of a planner, or of many trials' at once."""

from collections.abc import Sequence

import numpy as np

from amsfl import drift
from amsfl.core import Reading
from amsfl.methods import Method
from amsfl.planning.context import PlannerContext, PlannerMemory, RoundReadings
from amsfl.planning.signals import fold_in
from amsfl.schedule import Policy


def learns(method: Method, policy: Policy) -> bool:
    """Whether rounds change what the next ones are planned by."""
    return method.judges or not policy.constant


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
    cohort = np.stack([each.cohort for each in rounds])
    steps = np.stack([each.decision.steps for each in rounds])
    lr = np.stack([np.broadcast_to(each.decision.lr, len(each.cohort)) for each in rounds])
    reading = Reading(*map(np.stack, zip(*readings, strict=True)))
    estimates = [each.memory.estimates for each in rounds]
    if contexts[0].policy.readings:
        old = drift.Estimates(*map(np.stack, zip(*estimates, strict=True)))
        fresh = drift.update(old, cohort, steps, lr, reading, weights)
        estimates = [
            drift.Estimates(*new) if finite else mine
            for mine, finite, *new in zip(estimates, whole, *fresh, strict=True)
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
            context.doubt.changes,
        )
        if context.method.judges
        else each.memory.judge
        for (context, each), share, reading in zip(pairs, weights, readings, strict=True)
    ]
    rates = [each.memory.lr * judge.factor for each, judge in zip(rounds, judges, strict=True)]
    return [PlannerMemory(*parts) for parts in zip(rates, estimates, means, judges, strict=True)]
