"""Rounds that may end before all are in: clients start and arrive in a queue of events (trial.py).

Nothing is computed here: who arrives when follows from steps and speeds alone. Models play a part only where
work began from an older one.
"""

from collections.abc import Callable, Iterator
from itertools import count, islice

import numpy as np

from amsfl import clock, protocol, sampling
from amsfl.clock.round_end import UNGROUPED, ArrivalGroup, Starter
from amsfl.core import Upload
from amsfl.core.records import Array, Number
from amsfl.engines import Models, Results, Work
from amsfl.planning import planner
from amsfl.planning.planner import Decision
from amsfl.privacy.mechanisms import pace, share_of_run
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import (
    JOB,
    NOBODY,
    Round,
    TrialState,
    all_equal,
    busy_clients,
    join_jobs,
    next_move,
    next_numbers,
    note_decision,
    reasons_of,
    tidy,
)

TRIES = 30  # clients that are asked for a free place
DRAWS = 0xC0  # the stream that cohorts are drawn from
Draw = Callable[[Array | None], Array]  # a whole cohort, of those who are allowed a step


def next_round(setup: RunSetup, trial: TrialState, draw: Draw) -> Round:
    """A round that may end before all are in: clients start and arrive until the server moves.

    The decisions for the clients that arrived are one; some may have been made in earlier rounds.
    """
    queue, version, now = trial.queue, trial.round, trial.seconds["makespan"]
    jobs, dropped, end = next_move(
        queue, now, version, setup.end, lambda when: _invite(setup, trial, draw, when)
    )
    same_rate = all_equal(jobs["lr"])
    fresh = (jobs["number"] == version) & (jobs["version"] == version)
    any_size = setup.federation.private_clients is not None  # whose cohorts have no fixed size
    # one full cohort that has just begun from the newest model is to the bit a round that waits for all
    whole = bool(fresh.all() and same_rate and (any_size or len(jobs) == setup.cohort))
    if whole and setup.conditions[trial.index] is None:
        seconds = clock.round_seconds(setup.costs[trial.index], jobs["client"], jobs["steps"])
    else:
        work = join_jobs(jobs, dropped)
        seconds = {"sum": float((work["arrives"] - work["started"]).sum()), "makespan": end - now}
    reasons = dict(reasons_of(queue, jobs))
    predicted = reasons.pop("predicted_seconds")
    lr: Number = float(jobs["lr"][0]) if same_rate else jobs["lr"]
    decision = Decision(jobs["steps"], lr, predicted if whole else end - now, reasons)
    tidy(queue, version + 1)
    return Round(jobs, dropped, decision, jobs["arrives"] - jobs["started"], seconds, end, version)


def _invite(setup: RunSetup, trial: TrialState, draw: Draw, now: float) -> Array:
    """Jobs for all clients that start now."""
    index, queue, version = trial.index, trial.queue, trial.round
    conditions, allowed = setup.conditions[index], allowance(setup, trial) if setup.mechanism else None
    clients, started = _available_clients(setup, trial, draw, now, allowed)
    if not len(clients):
        return NOBODY
    jobs = np.zeros(len(clients), JOB)
    jobs["client"], jobs["version"], jobs["started"] = clients, version, started
    jobs["number"] = next_numbers(queue, clients, version)
    # each by what its own seconds are worth, or in an arrival group
    apart = setup.end.join is not None or (setup.end.overlap and setup.policy.readings)
    for some in np.split(jobs, len(clients)) if apart else [jobs]:
        decision = _decide_apart(setup, trial, some["client"], allowed)
        some["steps"], some["lr"] = decision.steps, decision.lr
        note_decision(queue, some, decision)
    if setup.end.join is not None:
        queue.predicted = None  # of those in no group: the first rounds of clients
        _assign_groups(setup, trial, jobs)
    np.add.at(trial.begun, clients, jobs["steps"])  # also of jobs that fail later: they spend privacy, too
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
    setup: RunSetup, trial: TrialState, draw: Draw, now: float, allowed: Array | None
) -> tuple[Array, float | Array]:
    """Available clients for the free places, and when they start.

    If nobody is available or at work, these are the clients that come back first.
    """
    conditions = setup.conditions[trial.index]
    if conditions is None or conditions.window is None:
        return _free_clients(setup, trial, draw, allowed), now
    clients = _free_clients(setup, trial, draw, allowed, lambda who: conditions.begin(who, now) <= now)
    if not len(clients):
        return clients, now
    begins = np.array([conditions.begin(int(client), now) for client in clients])
    present = begins <= now
    if not present.any() and not len(trial.queue.jobs):
        present = begins == begins.min()
    return clients[present], np.maximum(begins[present], now)


def _free_clients(
    setup: RunSetup,
    trial: TrialState,
    draw: Draw,
    allowed: Array | None,
    present: Callable[[int], bool] | None = None,
) -> Array:
    """Idle clients for all free places, in order, of those who may take a step; with `present`, of those who
    are available, if some can be found. Single places are filled by a stateless hash."""
    clients, queue = len(trial.steps), trial.queue
    busy = busy_clients(queue, one_each=setup.federation.rule is not None)  # rules count results
    free = setup.cohort - len(busy)
    if setup.federation.private_clients is not None or not (len(busy) or present):
        return draw(allowed)
    if free <= 0:  # under a rule, who waits for the server's move takes a place, too
        return np.zeros(0, np.int64)
    if setup.cohort == clients or allowed is not None:
        idle = np.setdiff1d(np.arange(clients) if allowed is None else np.flatnonzero(allowed > 0), busy)
        if free >= len(idle):
            return idle
    whole = busy[:0] if len(busy) else draw(allowed)
    chosen = [who for who in whole.tolist() if present is None or present(who)]
    taken: set[int] = {*busy.tolist(), *chosen}
    tries = None if present is None else TRIES * free  # nobody may be available
    for who in islice(_candidates(trial.seed, queue.groups, clients, 2 * free), tries):
        if len(chosen) == free:
            break
        may = who not in taken and (allowed is None or allowed[who] > 0)
        if may and (present is None or present(who)):
            taken.add(who)
            chosen.append(who)
    return np.array(sorted(chosen), np.int64) if chosen or len(busy) else whole


def _candidates(seed: int, group: int, clients: int, size: int) -> Iterator[int]:
    """An endless sequence of clients, drawn by the hash, `size` at a time."""
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (seed, group, DRAWS)))
    for begin in count(0, size):
        with np.errstate(over="ignore"):
            uniform = sampling.uniform(key, np.arange(begin, begin + size, dtype=np.uint32))
        yield from np.minimum(uniform * np.float64(clients), clients - 1).astype(np.int64).tolist()


def _assign_groups(setup: RunSetup, trial: TrialState, jobs: Array) -> None:
    """Give every client its steps and its arrival group, the fastest first."""
    costs, end, queue = setup.contexts[trial.index].costs, setup.end, trial.queue
    assert end.join is not None
    for place in np.argsort(costs.step_seconds[jobs["client"]], kind="stable").tolist():
        who, most, now = (jobs[name][place].item() for name in ("client", "steps", "started"))
        step, comm = costs.step_seconds[who].item(), costs.comm_seconds[who].item()
        client = Starter(step, comm, most, first=not trial.begun[who])
        steps, name = end.join(client, now, queue.open_groups)
        jobs["steps"][place] = steps
        if name == UNGROUPED:
            continue
        lasts, turn = client.seconds(steps), client.seconds(client.most)
        if name is None:
            name = jobs["group"][place].item() + 1 + UNGROUPED
            queue.open_groups[name] = ArrivalGroup(now, now + lasts, end.deadline(now, lasts), turn)
        group = queue.open_groups[name]
        queue.open_groups[name] = group._replace(turn=min(group.turn, turn))
        jobs["arrival_group"][place] = name


def _decide_apart(setup: RunSetup, trial: TrialState, cohort: Array, allowed: Array | None) -> Decision:
    """The same. A constant plan is made once for all clients if they start one by one."""
    queue, context, number = trial.queue, setup.contexts[trial.index], trial.round
    if allowed is not None or not (setup.end.overlap and setup.policy.constant):
        allows = None if allowed is None else allowed[cohort]
        return planner.decide(context, trial.memory, number, cohort, allows)
    if queue.plan_for_all is None:
        queue.plan_for_all = planner.decide(context, trial.memory, number, np.arange(len(trial.steps)))
    whole: Decision = queue.plan_for_all
    explained = {
        key: [part[i] for i in cohort] if isinstance(part, list) else part
        for key, part in whole.explain.items()
    }
    lr = planner.rate_now(context, trial.memory, number)
    return whole._replace(steps=whole.steps[cohort], lr=lr, explain=explained)


def allowance(setup: RunSetup, trial: TrialState) -> Array | None:
    """The most steps of every client in the next round, by what privacy it has left; None: no such limit."""
    config, share = setup.configs[trial.index], None
    if setup.policy.readings:  # who plans by worth is paced
        share = share_of_run(config, trial.round, trial.seconds[config.clock])
    return pace(setup.ledgers[trial.index], trial.begun, share)


def models_of(trial: TrialState, newest: Models, this: Round) -> tuple[Models, Array]:
    """The models that jobs begin from, and which of them each; keeps those that others still work on."""
    models, queue = trial.queue.models | {this.version: newest}, trial.queue
    needed = {*queue.jobs["version"].tolist(), *queue.arrived["version"].tolist()}
    queue.models = {version: each for version, each in models.items() if version in needed}
    versions, begin = np.unique(this.jobs["version"], return_inverse=True)
    chosen = zip(*(models[each] for each in versions.tolist()), strict=True)
    return Models(*map(np.stack, chosen)), begin


def aged_uploads(
    setup: RunSetup, trial: TrialState, this: Round, work: Work, results: Results
) -> Iterator[tuple[Upload, Array]]:
    """Each by what its age leaves of it, and the model that it began from."""
    versions = np.unique(this.jobs["version"])
    for nth, begin in enumerate(work.begin):
        own, began = Upload(*(part[nth] for part in results.uploads)), work.models.anchor[begin]
        age = int(this.version - versions[begin])
        counts, older = setup.task.dtype(setup.end.weight(age)), began if age else None
        yield protocol.weigh_by_age(setup.federation.method, own, counts, trial.anchor, older), began
