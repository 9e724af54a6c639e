"""What a round's jobs begin from, and what the server makes of their uploads.

Every job has a model of its own to begin from: the newest one, or, where rounds do not wait for everybody,
the one that there was when it began. A synchronous round is the case in which they are all the same.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from amsfl import combine, protocol, sampling
from amsfl.core import Reading, Upload
from amsfl.core.records import Array, Json
from amsfl.engines import Models, Results, Work
from amsfl.simulation import dispatch
from amsfl.simulation.event_queue import under_way
from amsfl.simulation.plan_round import TrialPlan
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState


class RoundResult(NamedTuple):
    """What a round came to, besides the trial's new vectors."""

    reading: Reading
    weighed: Json  # how much each of the cohort counts after each link of a rule
    deltas: Array | None = None  # [cohort, dim] and what they began from, where somebody wants to know
    began: Array | None = None


def begin_round(setup: RunSetup, trial: TrialState, plan: TrialPlan) -> list[tuple[Array, Work]]:
    """What an engine is to compute, and whose results that are: places among the jobs that are taken.

    Who has two results begins the second round with what it remembers of the first: in a further turn.
    """
    jobs, vectors, queue = plan.move.jobs, trial.vectors, trial.queue
    newest = _models(setup, trial)
    if (under_way(queue)["version"] == plan.version).any():
        queue.models[plan.version] = newest
    versions, begin = np.unique(jobs["version"], return_inverse=True)
    each = [newest if version == plan.version else queue.models[version] for version in versions.tolist()]
    models = Models(*(np.stack(part) for part in zip(*each, strict=True)))
    turns = _turns(jobs["client"]) if vectors.client.size + vectors.memory.size else np.zeros(len(jobs), int)
    asked = []
    for turn in range(turns.max() + 1):
        places = np.flatnonzero(turns == turn)
        mine = jobs[places]
        columns = (mine[name] for name in ("client", "steps", "lr", "number"))
        own = (part[mine["client"]] for part in (vectors.client, vectors.memory))
        work = Work(trial.index, *columns, models, begin[places], *own, _shares(setup, trial, plan))  # type: ignore[arg-type,call-arg]
        asked.append((places, work))
    return asked


def _turns(clients: Array) -> Array:
    """How many jobs of the same client are before each; `clients` are in order."""
    return np.arange(len(clients)) - np.searchsorted(clients, clients)


def _models(setup: RunSetup, trial: TrialState) -> Models:
    """The newest, one of each."""
    vectors = trial.vectors
    sent = protocol.sent_state(setup.method, vectors.server, vectors.anchor)
    return Models(vectors.anchor, sent, vectors.step)


def _shares(setup: RunSetup, trial: TrialState, plan: TrialPlan) -> Array | None:
    """How much each upload counts, where their sum is all that the server needs."""
    jobs, config = plan.move.jobs, setup.config
    whole = (jobs["version"] == plan.version).all() and not (config.local_accuracy or config.worth)
    if protocol.compares_uploads(setup.method) or not whole:
        return None
    weights, steps = _weights_and_steps(setup, trial, plan)
    return np.asarray(setup.method.arithmetic.mix(weights, steps))


def _weights_and_steps(setup: RunSetup, trial: TrialState, plan: TrialPlan) -> tuple[Array, Array]:
    clients, dtype = plan.cohort, setup.task.dtype
    weights = setup.weights[trial.index, clients]
    if setup.method.private_clients is not None:  # who was not drawn counts nothing
        weights = weights * np.isin(clients, dispatch.draw_by_chance(setup, trial.seed, plan.version))
    return weights.astype(dtype), plan.move.jobs["steps"].astype(dtype)


def end_round(
    setup: RunSetup, trial: TrialState, plan: TrialPlan, found: Sequence[tuple[Array, Work, Results]]
) -> RoundResult:
    """Move the server; changes the trial."""
    method, index, version = setup.method, trial.index, plan.version
    jobs, clients, vectors = plan.move.jobs, plan.cohort, trial.vectors
    for _, work, results in found:
        if results.state.size + results.memory.size:
            vectors.client[work.client], vectors.memory[work.client] = results.state, results.memory
    order = np.argsort(np.concatenate([places for places, _, _ in found]))
    fields = zip(*(results.readings for _, _, results in found), strict=True)
    reading = Reading(*(np.concatenate(part)[order].astype(float) for part in fields))
    for judged in (reading.held_loss, reading.spread):
        judged[jobs["version"] < version] = np.nan  # of an older model
    weights, steps = _weights_and_steps(setup, trial, plan)
    attackers = private = None
    if method.attacks:
        attackers = setup.attackers.forging(version, index, clients)
    if method.private_clients is not None:
        largest = setup.weights[index].max().astype(setup.task.dtype)
        private = largest, partial(_noise, setup, trial.seed, version)
    age = float(np.mean(version - jobs["version"]))
    cohort = protocol.CohortWork((), weights, steps, attackers, private, age, vectors.history[clients])
    deltas = began = None
    if found[0][1].shares is not None:
        cohort = cohort._replace(total=found[0][2].uploads)
    else:
        sent = [
            each
            for _, work, results in found
            for each in _uploads(setup, plan, vectors.anchor, work, results)
        ]
        cohort = cohort._replace(uploads=[sent[place] for place in order])
        own = found[0][1]
        deltas = np.stack([each.delta for each in cohort.uploads])
        began = own.models.anchor[np.searchsorted(np.unique(jobs["version"]), jobs["version"])]
    moved, server, weighed, history = protocol.settle(method, vectors.anchor, vectors.server, cohort)
    vectors.history[clients] = history
    step = moved - vectors.anchor
    trial.vectors = vectors._replace(anchor=moved, server=server, step=step)
    alive = {*under_way(trial.queue)["version"].tolist()}
    trial.queue.models = {number: each for number, each in trial.queue.models.items() if number in alive}
    links = combine.link_names(method.combine) if method.combine and weighed else ()
    counts = {name: np.asarray(weighed[name], float) for name in links}
    return RoundResult(reading, counts, deltas, began)


def _uploads(
    setup: RunSetup, plan: TrialPlan, anchor: Array, work: Work, results: Results
) -> Iterator[Upload]:
    """Each by what its age leaves of it."""
    versions = np.unique(plan.move.jobs["version"])
    for nth, begin in enumerate(work.begin):
        sent = Upload(*(part[nth] for part in results.uploads))
        age = int(plan.version - versions[begin])
        counts = setup.task.dtype(setup.end.weight(age))
        began = work.models.anchor[begin] if age else None
        yield protocol.weigh_by_age(setup.method, sent, counts, anchor, began)


def _noise(setup: RunSetup, seed: int, version: int, size: int) -> Array:
    """The server's own, where it keeps whole clients private: a hash of seed and round, as all chance is."""
    with np.errstate(over="ignore"):
        places = np.arange(size, dtype=np.uint32)
        noise = sampling.noise_of_round(sampling.words(seed), sampling.words(version), places)
    return np.asarray(noise, setup.task.dtype)


def follow_verdict(setup: RunSetup, trial: TrialState) -> None:
    """The trial after the judge's verdict on its last round."""
    verdict, rule = trial.memory.judge.verdict, setup.method.arithmetic.revise
    if not verdict or rule is None:
        return
    vectors = trial.vectors
    anchor, server = rule(vectors.anchor, vectors.server, verdict)
    step = vectors.step + (anchor - vectors.anchor)
    trial.vectors = vectors._replace(anchor=anchor, server=server, step=step)
