"""What a round's readings leave in the memory of a planner, or of many trials' at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from amsfl import drift
from amsfl.core import Reading
from amsfl.planning.context import PlannerContext, PlannerMemory, RoundReadings
from amsfl.planning.signals import heard


def learn(desks: Sequence[PlannerContext], told: Sequence[RoundReadings]) -> list[PlannerMemory]:
    """Everybody's memory after a round, each as it would be alone; cohorts of one size go together."""
    found = [each.memory for each in told]
    groups: dict[Any, list[int]] = {}
    for place, (desk, each) in enumerate(zip(desks, told, strict=True)):
        if desk.method.facts.own_rate or not desk.policy.constant:
            groups.setdefault((len(each.cohort), desk.policy.readings), []).append(place)
    for places in groups.values():
        fresh = _alike([desks[place] for place in places], [told[place] for place in places])
        for place, memory in zip(places, fresh, strict=True):
            found[place] = memory
    return found


def _alike(desks: list[PlannerContext], told: list[RoundReadings]) -> list[PlannerMemory]:
    """Of federations that plan alike and had as many clients."""
    pairs = list(zip(desks, told, strict=True))
    weights = np.stack([desk.doubt.rows(desk.weights[each.cohort]) for desk, each in pairs])
    readings = [desk.doubt.believed(each.reading) for desk, each in pairs]
    rates = [
        drift.next_rate(each.memory.rate, reading, share, desk.doubt.opening)
        if desk.method.facts.own_rate
        else each.memory.rate
        for (desk, each), reading, share in zip(pairs, readings, weights, strict=True)
    ]
    cohort = np.stack([each.cohort for each in told])
    steps = np.stack([each.decision.steps for each in told])
    lr = np.stack([np.broadcast_to(_number(each.decision.lr), len(each.cohort)) for each in told])
    reading = Reading(*map(np.stack, zip(*readings, strict=True)))
    estimates = [each.memory.estimates for each in told]
    if desks[0].policy.readings:
        # the first round's steps were, more or less, as long as what its readings say
        first = np.array([_number(rate.lr) for rate in rates], float)
        own = np.where(np.isnan(lr), first[:, None], lr)
        old = drift.Estimates(*map(np.stack, zip(*estimates, strict=True)))
        fresh = drift.update(old, cohort, steps, own, reading, weights)
        estimates = [
            drift.Estimates(*new) if known else mine
            for mine, known, *new in zip(estimates, ~np.isnan(own[:, 0]), *fresh, strict=True)
        ]
    before = [each.memory.heard for each in told]
    took = [each.decision.predicted_seconds for each in told]
    words = heard(before, weights, steps, lr, took, reading)
    return [PlannerMemory(*parts) for parts in zip(rates, estimates, words, strict=True)]


def _number(lr: Any) -> Any:
    return np.nan if lr is None else lr
