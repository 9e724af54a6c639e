"""Who starts, with how many steps, and when they will be back."""

from collections.abc import Callable, Iterator
from itertools import count, islice

import numpy as np

from amsfl import clock, sampling
from amsfl.clock.round_end import ArrivalGroup, Starter
from amsfl.planning import planner
from amsfl.planning.memory import Decision, PlanRequest
from amsfl.record.schema import Array
from amsfl.simulation import event_queue
from amsfl.simulation.event_queue import JOB, NOBODY
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState

TRIES = 30  # clients that are asked for a free place
DRAWS = 0xC0  # the stream that cohorts are drawn from


def invite(setup: RunSetup, trial: TrialState, now: float, allowed: Array | None) -> Array:
    """Jobs for all clients that start now; `allowed` is the most steps of every client."""
    index, queue, version = trial.index, trial.queue, trial.round
    conditions = setup.conditions[index]
    clients, started = _available_clients(setup, trial, now, allowed)
    if not len(clients):
        return NOBODY
    jobs = np.zeros(len(clients), JOB)
    jobs["client"], jobs["version"], jobs["started"] = clients, version, started
    jobs["number"] = event_queue.next_numbers(queue, clients, version)
    # each by what its own seconds are worth, or in an arrival group
    apart = setup.end.join is not None or (setup.end.overlap and setup.policy.readings)
    for some in np.split(jobs, len(clients)) if apart else [jobs]:
        decision = _decide(setup, trial, some["client"], allowed)
        some["steps"], some["lr"] = decision.steps, decision.lr
        event_queue.note_decision(queue, some, decision)
    if setup.end.join is not None:
        queue.predicted = None  # of those in no group: the first rounds of clients
        _assign_groups(setup, trial, jobs)
    queue.count(jobs)
    costs = setup.costs[index]
    if conditions is None:
        jobs["arrives"] = now + clock.client_seconds(costs, clients, jobs["steps"])
    else:
        work, link = costs.step_seconds[clients] * jobs["steps"], costs.comm_seconds[clients]
        jobs["arrives"], jobs["lost"] = conditions.trips(
            trial.seed, clients, jobs["number"], jobs["started"], work, link
        )
    return jobs


def _available_clients(
    setup: RunSetup, trial: TrialState, now: float, allowed: Array | None
) -> tuple[Array, float | Array]:
    """Available clients for the free places, and when they start.

    If nobody is available or at work, these are the clients that come back first.
    """
    conditions = setup.conditions[trial.index]
    if conditions is None or conditions.window is None:
        return draw_clients(setup, trial, allowed), now
    clients = draw_clients(setup, trial, allowed, lambda client: conditions.begin(client, now) <= now)
    if not len(clients):
        return clients, now
    begins = np.array([conditions.begin(int(client), now) for client in clients])
    present = begins <= now
    if not present.any() and not len(trial.queue.jobs):
        present = begins == begins.min()
    return clients[present], np.maximum(begins[present], now)


def _assign_groups(setup: RunSetup, trial: TrialState, jobs: Array) -> None:
    """Give every client its steps and its arrival group, the fastest first."""
    costs, end, queue = setup.claimed_costs[trial.index], setup.end, trial.queue
    assert end.join is not None
    for place in np.argsort(costs.step_seconds[jobs["client"]], kind="stable").tolist():
        who, most, now = (jobs[name][place].item() for name in ("client", "steps", "started"))
        step, comm = costs.step_seconds[who].item(), costs.comm_seconds[who].item()
        client = Starter(step, comm, most, first=who not in queue.begun)
        steps, name, waited_for = end.join(client, now, queue.open_groups)
        jobs["steps"][place] = steps
        if not waited_for:
            continue
        lasts, turn = client.seconds(steps), client.seconds(client.most)
        if name is None:
            name = jobs["group"][place].item() + 1  # 0 is UNGROUPED
            queue.open_groups[name] = ArrivalGroup(now, now + lasts, end.deadline(now, lasts), turn)
        group = queue.open_groups[name]
        queue.open_groups[name] = group._replace(turn=min(group.turn, turn))
        jobs["arrival_group"][place] = name


def _decide(setup: RunSetup, trial: TrialState, cohort: Array, allowed: Array | None) -> Decision:
    """The plan for a cohort. A constant plan is made once for all clients if they start one by one."""
    context, queue = setup.contexts[trial.index], trial.queue
    if allowed is not None or not (setup.end.overlap and setup.policy.constant):
        return planner.decide(context, plan_request(setup, trial, cohort, allowed))
    if queue.plan_for_all is None:
        everyone = np.arange(setup.weights.shape[1])
        queue.plan_for_all = planner.decide(context, plan_request(setup, trial, everyone, None))
    whole: Decision = queue.plan_for_all
    explained = {
        key: [part[i] for i in cohort] if isinstance(part, list) else part
        for key, part in whole.explain.items()
    }
    lr = planner.rate_now(context, plan_request(setup, trial, cohort, None))
    return whole._replace(steps=whole.steps[cohort], lr=lr, explain=explained)


def plan_request(setup: RunSetup, trial: TrialState, cohort: Array, allowed: Array | None) -> PlanRequest:
    """What a decision is made from; costs are those that clients claim."""
    allows = None if allowed is None else allowed[cohort]
    return PlanRequest(trial.memory, trial.round, cohort, setup.claimed_costs[trial.index], allows)


def draw_clients(
    setup: RunSetup,
    trial: TrialState,
    allowed: Array | None = None,
    present: Callable[[int], bool] | None = None,
) -> Array:
    """Idle clients for all free places, in order, of those who may take a step; with `present`, of those who
    are available, if some can be found.

    A whole cohort is a draw that depends on seed and version alone, so a resumed run draws the same; single
    places are filled by the stateless hash.
    """
    clients = setup.task.shards.size.shape[1]
    busy = event_queue.busy(trial.queue, one_each=setup.method.combine is not None)  # rules count results
    if setup.method.private_clients is not None:
        some = draw_by_chance(setup, trial.seed, trial.round)
        return some if len(some) else np.zeros(1, np.int64)  # one whose work will count nothing
    free = setup.cohort - len(busy)
    if free <= 0:  # under a rule, who waits for the server's move takes a place, too
        return np.zeros(0, np.int64)
    pool = np.arange(clients) if allowed is None else np.flatnonzero(allowed > 0)
    if setup.cohort == clients or allowed is not None:
        idle = np.setdiff1d(pool, busy) if len(busy) else pool
        if free >= len(idle):
            return idle
    chosen: list[int] = []
    if not len(busy):
        rng = np.random.default_rng([trial.seed, trial.round, DRAWS])
        whole = np.sort(rng.choice(clients if allowed is None else pool, setup.cohort, replace=False))
        if present is None:
            return whole
        chosen = [who for who in whole.tolist() if present(who)]
        if len(chosen) == free:
            return whole
    taken: set[int] = {*busy.tolist(), *chosen}
    tries = None if present is None else TRIES * free  # nobody may be available
    for who in islice(_candidates(trial.seed, trial.queue.groups, clients, 2 * free), tries):
        if len(chosen) == free:
            break
        may = who not in taken and (allowed is None or allowed[who] > 0)
        if may and (present is None or present(who)):
            taken.add(who)
            chosen.append(who)
    return np.array(sorted(chosen), np.int64) if chosen or len(busy) else whole


def draw_by_chance(setup: RunSetup, seed: int, version: int) -> Array:
    """A cohort that each client joins with the same chance, independently of the others; it may be empty."""
    assert setup.method.private_clients is not None
    rng = np.random.default_rng([seed, version, DRAWS])
    coins = rng.random(setup.task.shards.size.shape[1])
    return np.flatnonzero(coins < setup.method.private_clients.part)[: setup.cohort]


def _candidates(seed: int, group: int, clients: int, size: int) -> Iterator[int]:
    """An endless sequence of clients, drawn by the hash, `size` at a time."""
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (seed, group, DRAWS)))
    for begin in count(0, size):
        with np.errstate(over="ignore"):
            uniform = sampling.uniform(key, np.arange(begin, begin + size, dtype=np.uint32))
        yield from np.minimum(uniform * np.float64(clients), clients - 1).astype(np.int64).tolist()
