"""Many trials' memories at once: each is what it would be alone, to the last bit."""

from itertools import pairwise

import numpy as np
import pytest

from amsfl import clock, drift, methods
from amsfl.core import Reading
from amsfl.planning.context import PlanRequest, RoundReadings, planner_context, start
from amsfl.planning.decisions import decide
from amsfl.planning.learning import learn
from amsfl.planning.planner import policy_of
from amsfl.simulation import make_config


def bits(found: object) -> object:
    """Something that is equal only if all numbers are, to the last bit; NaN is NaN."""
    if isinstance(found, np.ndarray):
        return found.tobytes()
    if isinstance(found, dict):
        return {key: bits(part) for key, part in found.items()}
    return [bits(part) for part in found] if isinstance(found, list | tuple) else repr(found)


def told(rng: np.random.Generator, clients: int, number: int) -> Reading:
    """Readings, some of which were not taken or were lost."""
    parts = rng.normal(size=(len(Reading._fields), clients)) ** 2
    parts[:, rng.random(clients) < 0.1 * number] = [np.nan, 0.0, np.inf][number % 3]
    if number == 3:
        parts[Reading._fields.index("delta_dir")] = 0.0  # nobody went along the last global step
    return Reading(*parts)


@pytest.mark.parametrize("method", ["amsfl", "amsfl-steps", "fedavg"])
def test_trials_decide_and_learn_together_as_they_do_alone(method):
    """Twelve clients: from eight on numpy sums in another order where some are left out."""
    rng, clients = np.random.default_rng(0), 12
    config = make_config({"method": method, "batch": 8})
    by = methods.make(method)
    desks = [
        planner_context(
            config, by, policy_of(config, by), rng.dirichlet(np.ones(clients)), rng.integers(20, 900, clients)
        )
        for weights in rng.dirichlet(np.ones(clients), 6)
    ]
    costs = [clock.Costs(rng.uniform(0.01, 0.1, clients), rng.uniform(0, 1, clients)) for _ in desks]
    memories = [start(each) for each in desks]
    for number in range(5):
        sizes = [clients, clients, clients, 9, 9, 3]
        cohorts = [np.sort(rng.choice(clients, size, replace=False)) for size in sizes]
        asked = [PlanRequest(*each) for each in zip(memories, [number] * 6, cohorts, costs, strict=True)]
        decisions = decide(desks, asked)
        assert bits(decisions) == bits([decide([a], [b])[0] for a, b in zip(desks, asked, strict=True)])
        readings = [told(rng, len(who), number) for who in cohorts]
        heeded = [RoundReadings(*each) for each in zip(memories, cohorts, decisions, readings, strict=True)]
        fresh = learn(desks, heeded)
        assert bits(fresh) == bits([learn([a], [b])[0] for a, b in zip(desks, heeded, strict=True)])
        memories = fresh
    if method == "fedavg":
        assert all(memory.reported.loss is None for memory in memories)
        return
    lines = [memory.reported.loss for memory in memories]
    assert None not in lines and len(set(lines)) == len(lines)
    assert all(not np.array_equal(a.estimates.gain, b.estimates.gain) for a, b in pairwise(memories))


def test_sums_of_some_are_those_of_the_rest_left_out():
    rng = np.random.default_rng(1)
    values, some = rng.normal(size=(4, 100)), rng.random((4, 100)) < 0.7
    found = drift.sum_of(values, some)
    assert found.tolist() == [row[here].sum() for row, here in zip(values, some, strict=True)]
    assert drift.sum_of(values, np.ones_like(some)).tolist() == [row.sum() for row in values]
