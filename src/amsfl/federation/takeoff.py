"""Who starts, with how many steps, and when they will be back."""

from typing import Any

import numpy as np

from amsfl import clock, sampling
from amsfl.federation import flight as queue
from amsfl.federation.flight import JOB, NOBODY, Flight
from amsfl.federation.planner import Decision, Memory
from amsfl.federation.setup import Parts

Array = np.ndarray[Any, np.dtype[Any]]
DRAWS = 0xC0  # the stream that cohorts are drawn from


def invited(
    parts: Parts,
    trial: int,
    memory: Memory,
    flight: Flight,
    version: int,
    now: float,
    allowed: Array | None = None,
) -> Array:
    """The jobs of all who start now, at the places that are free; `allowed`: every client's most steps."""
    who = drawn(parts, parts.task.seeds[trial], flight, version, allowed)
    if not len(who):
        return NOBODY
    jobs, costs = np.zeros(len(who), JOB), parts.costs[trial]
    taken = {*queue.under_way(flight)["place"].tolist()}
    free = (place for place in range(parts.places) if place not in taken)
    jobs["client"], jobs["version"], jobs["started"] = who, version, now
    jobs["number"], jobs["place"] = queue.numbers(flight, who, version), [next(free) for _ in who]
    apart = parts.end.asynchronous and parts.policy.readings  # each by what its own seconds are worth
    for some in np.split(jobs, len(who)) if apart else [jobs]:
        decision = decide(parts, trial, memory, version, some["client"], allowed)
        some["steps"], some["lr"] = decision.steps, np.nan if decision.lr is None else decision.lr
        some["group"], some["nth"] = flight.groups, np.arange(len(some))
        flight.told[flight.groups] = decision.explain | {"predicted_seconds": decision.predicted_seconds}
        flight.groups += 1
    flight.count(jobs)
    jobs["arrives"] = now + clock.client_seconds(costs, who, jobs["steps"])
    return jobs


def decide(
    parts: Parts, trial: int, memory: Memory, version: int, who: Array, allowed: Array | None = None
) -> Decision:
    """The plan for these clients, by what they say of their speed."""
    costs = parts.foes.costs(trial, parts.costs[trial])
    return parts.planners[trial].decide(
        memory, version, who, costs, None if allowed is None else allowed[who]
    )


def drawn(parts: Parts, seed: int, flight: Flight, version: int, allowed: Array | None = None) -> Array:
    """Idle clients for all free places, in order, of those who may take a step.

    A whole cohort is a draw that depends on seed and version alone, so a resumed run draws the same; single
    places are filled by the stateless hash.
    """
    clients, busy = parts.task.shards.size.shape[1], flight.jobs["client"]
    free = parts.cohort - len(busy)
    there = np.arange(clients) if allowed is None else np.flatnonzero(allowed > 0)
    idle = np.setdiff1d(there, busy) if len(busy) else there
    if free >= len(idle):
        return idle
    if not len(busy):
        rng = np.random.default_rng([seed, version, DRAWS])
        return np.sort(rng.choice(there, parts.cohort, replace=False))
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (seed, flight.groups, DRAWS)))
        found, place = np.zeros(0, np.int64), 0
        while len(found) < free:
            places = np.arange(place, place + 2 * free, dtype=np.uint32)
            picked = (sampling.uniform(key, places) * np.float32(clients)).astype(np.int64) % clients
            found = np.concatenate([found, picked[np.isin(picked, idle)]])
            found = found[np.sort(np.unique(found, return_index=True)[1])]
            place += 2 * free
    return np.sort(found[:free])
