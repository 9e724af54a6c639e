"""Who starts, with how many steps, and when they will be back."""

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import numpy as np

from amsfl import clock, sampling
from amsfl.clock.arrival_groups import ArrivalGroup, Starter
from amsfl.planning import decisions
from amsfl.planning.context import Asked, Decision, Memory
from amsfl.simulation import event_queue as queue
from amsfl.simulation.event_queue import JOB, NOBODY, Flight
from amsfl.simulation.setup import Parts

Array = np.ndarray[Any, np.dtype[Any]]
TRIES = 30  # clients that are asked for a free place
DRAWS = 0xC0  # the stream that cohorts are drawn from


def invited(
    parts: Parts,
    trial: int,
    memory: Memory,
    flight: Flight,
    version: int,
    now: float,
    allowed: Array | None = None,
    ready: Decision | None = None,
) -> Array:
    """The jobs of all who start now, at the places that are free; `allowed`: every client's most steps,
    `ready`: what was decided for them already."""
    seed, weather = parts.task.seeds[trial], parts.weather[trial]
    here = None if weather.window is None else lambda client: weather.begin(client, now) <= now
    who = drawn(parts, seed, flight, version, allowed, here)
    who, started = _there(weather, who, now, waits=not len(flight.jobs))
    if not len(who):
        return NOBODY
    jobs, costs = np.zeros(len(who), JOB), parts.costs[trial]
    taken = {*queue.under_way(flight)["place"].tolist()}
    free = (place for place in count() if place not in taken)
    jobs["client"], jobs["version"], jobs["started"] = who, version, started
    jobs["number"], jobs["place"] = queue.numbers(flight, who, version), list(islice(free, len(who)))
    # each by what its own seconds are worth, or to a meeting of its own
    apart = parts.end.join is not None or (parts.end.overlap and parts.policy.readings)
    for some in np.split(jobs, len(who)) if apart else [jobs]:
        decision = ready or _decision(parts, trial, memory, flight, version, some["client"], allowed)
        some["steps"], some["lr"] = decision.steps, np.nan if decision.lr is None else decision.lr
        some["group"], some["nth"] = flight.groups, np.arange(len(some))
        flight.told[flight.groups] = decision.explain | {"predicted_seconds": decision.predicted_seconds}
        flight.groups += 1
        flight.predicted = float(decision.predicted_seconds)
    if parts.end.join is not None:
        flight.predicted = None  # of those in no group: the first rounds of clients
        _sent_to_meet(parts, trial, flight, jobs)
    flight.count(jobs)
    if weather.calm:
        jobs["arrives"] = now + clock.client_seconds(costs, who, jobs["steps"])
    else:
        work, link = costs.step_seconds[who] * jobs["steps"], costs.comm_seconds[who]
        jobs["arrives"], jobs["lost"] = weather.trips(seed, who, jobs["number"], jobs["started"], work, link)
    return jobs


def _sent_to_meet(parts: Parts, trial: int, flight: Flight, jobs: Array) -> None:
    """Every client's steps and arrival group by the round end, fastest first."""
    said, end = parts.foes.costs(trial, parts.costs[trial]), parts.end
    assert end.join is not None
    for place in np.argsort(said.step_seconds[jobs["client"]], kind="stable").tolist():
        who, most, now = (jobs[name][place].item() for name in ("client", "steps", "started"))
        step, comm = said.step_seconds[who].item(), said.comm_seconds[who].item()
        client = Starter(step, comm, most, first=who not in flight.begun)
        steps, name, waited_for = end.join(client, now, flight.meetings)
        jobs["steps"][place] = steps
        if not waited_for:
            continue
        lasts, turn = client.seconds(steps), client.seconds(client.most)
        if name is None:
            name = jobs["group"][place].item() + 1  # 0 is UNGROUPED
            flight.meetings[name] = ArrivalGroup(now, now + lasts, end.deadline(now, lasts), turn)
        known = flight.meetings[name]
        flight.meetings[name] = known._replace(turn=min(known.turn, turn))
        jobs["meets"][place] = name


def _there(weather: clock.Weather, who: Array, now: float, waits: bool) -> tuple[Array, Any]:
    """Those of the clients who are there; where nobody else is under way, the first who will be."""
    if weather.window is None or not len(who):
        return who, now
    begins = np.array([weather.begin(int(client), now) for client in who])
    here = begins <= now
    if not here.any() and waits:
        here = begins == begins.min()
    return who[here], np.maximum(begins[here], now)


def _decision(
    parts: Parts,
    trial: int,
    memory: Memory,
    flight: Flight,
    version: int,
    who: Array,
    allowed: Array | None,
) -> Decision:
    """The plan for those who start; where it never changes and they start one by one, from everyone's."""
    if allowed is not None or not (parts.end.overlap and parts.policy.constant):
        return decide(parts, trial, memory, version, who, allowed)
    if flight.everyone is None:
        flight.everyone = decide(parts, trial, memory, version, np.arange(parts.weights.shape[1]))
    whole: Decision = flight.everyone
    told = {
        key: [part[i] for i in who] if isinstance(part, list) else part for key, part in whole.explain.items()
    }
    return whole._replace(steps=whole.steps[who], lr=memory.rate.lr, explain=told)


def decide(
    parts: Parts, trial: int, memory: Memory, version: int, who: Array, allowed: Array | None = None
) -> Decision:
    """The plan for these clients."""
    return decisions.decide([parts.desks[trial]], [asked(parts, trial, memory, version, who, allowed)])[0]


def asked(
    parts: Parts, trial: int, memory: Memory, version: int, who: Array, allowed: Array | None = None
) -> Asked:
    """What it is decided by: what clients say of their speed."""
    costs = parts.foes.costs(trial, parts.costs[trial])
    return Asked(memory, version, who, costs, None if allowed is None else allowed[who])


def drawn(
    parts: Parts,
    seed: int,
    flight: Flight,
    version: int,
    allowed: Array | None = None,
    here: Callable[[int], bool] | None = None,
) -> Array:
    """Idle clients for all free places, in order, of those who may take a step; with `here`, of those who are
    there, if some can be found.

    A whole cohort is a draw that depends on seed and version alone, so a resumed run draws the same; single
    places are filled by the stateless hash.
    """
    clients, busy = parts.task.shards.size.shape[1], queue.busy(flight)
    if parts.method.private_clients is not None:
        some = by_chance(parts, seed, version)
        return some if len(some) else np.zeros(1, np.int64)  # one whose work will count nothing
    free = parts.cohort - len(busy)
    if parts.cohort == clients or allowed is not None:
        there = np.arange(clients) if allowed is None else np.flatnonzero(allowed > 0)
        idle = np.setdiff1d(there, busy) if len(busy) else there
        if free >= len(idle):
            return idle
    found: list[int] = []
    if not len(busy):
        rng = np.random.default_rng([seed, version, DRAWS])
        pool = clients if allowed is None else there
        whole = np.sort(rng.choice(pool, parts.cohort, replace=False))
        found = [] if here is None else [who for who in whole.tolist() if here(who)]
        if here is None or len(found) == free:
            return whole
    taken: set[int] = {*busy.tolist(), *found}
    tries = None if here is None else TRIES * free  # nobody may be there
    for who in islice(_candidates(seed, flight.groups, clients, 2 * free), tries):
        if len(found) == free:
            break
        may = who not in taken and (allowed is None or allowed[who] > 0)
        if may and (here is None or here(who)):
            taken.add(who)
            found.append(who)
    return np.array(sorted(found), np.int64) if found or len(busy) else whole


def by_chance(parts: Parts, seed: int, version: int) -> Array:
    """A cohort in which every client is with the same chance, whoever else is; it may be empty."""
    assert parts.method.private_clients is not None
    rng = np.random.default_rng([seed, version, DRAWS])
    coins = rng.random(parts.task.shards.size.shape[1])
    return np.flatnonzero(coins < parts.method.private_clients.part)[: parts.cohort]


def _candidates(seed: int, group: int, clients: int, size: int) -> Iterator[int]:
    """Clients without end, drawn by the hash; so many at a time."""
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (seed, group, DRAWS)))
    for begin in count(0, size):
        with np.errstate(over="ignore"):
            parts = sampling.uniform(key, np.arange(begin, begin + size, dtype=np.uint32))
        yield from np.minimum(parts * np.float64(clients), clients - 1).astype(np.int64).tolist()
