"""What becomes of work that the server does not take in one piece from its newest model.

Everything under way is computed together, each job from the model it began from, when the first of it is
needed; a job's model and its upload lie in a table by its place, for as long as it is under way.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from amsfl import protocol
from amsfl.core import Reading, Upload
from amsfl.drift import plausible
from amsfl.engines import Jobs, Starts, State
from amsfl.federation.flight import Flight, Move, alike, joined, under_way
from amsfl.federation.setup import Parts

Array = np.ndarray[Any, np.dtype[Any]]
BEGAN, CAME = ("anchor", "server", "step"), Upload._fields


def whole(parts: Parts, move: Move, version: int) -> bool:
    """Whether a move takes one full cohort that has just begun from the newest model: a synchronous round."""
    jobs = move.jobs
    fresh = (
        (jobs["number"] == version).all() and (jobs["version"] == version).all() and not jobs["done"].any()
    )
    full = len(jobs) == parts.cohort or parts.method.guard is not None  # whose cohorts have no fixed size
    return bool(full and fresh and alike(jobs["lr"]))


def on_host(state: State) -> State:
    """The state as numpy arrays that may be written to."""
    return State(*(part if _ours(part) else np.array(part) for part in state))


def _ours(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.flags.writeable


def remember(parts: Parts, state: State, trial: int, flight: Flight, version: int) -> None:
    """Before the server moves: what is still to be computed keeps the model that it began from."""
    left = under_way(flight)
    _begin(parts, state, trial, flight, left[~left["done"] & ~left["lost"] & (left["version"] == version)])


def _begin(parts: Parts, state: State, trial: int, flight: Flight, jobs: Array) -> None:
    if not len(jobs):
        return
    table = flight.table or _empty(parts, state)
    flight.table = table
    rows = {"anchor": state.anchor, "server": state.server, "step": state.step}
    for name, part in rows.items():
        row = np.asarray(part[trial])
        if name == "server":
            row = parts.method.told(row, np.asarray(state.anchor[trial]))
        table[name][jobs["place"]] = row


def _empty(parts: Parts, state: State) -> dict[str, Array]:
    """A table of all places: zeros."""
    x, dtype = np.zeros(parts.task.dim, parts.task.dtype), parts.task.dtype
    server, client = parts.method.init(x)
    told = parts.method.told(server, x)
    sent = parts.method.report(x, x, 1, 1.0, told, client)[0]
    shapes = {"anchor": x, "server": told, "step": x, **sent._asdict()}
    shapes["reading"] = np.zeros(len(Reading._fields))
    return {key: np.zeros((parts.places, *np.shape(part)), dtype) for key, part in shapes.items()}


def compute(
    parts: Parts,
    state: State,
    flights: Mapping[int, Flight],
    moves: Mapping[int, Move],
    versions: Mapping[int, int],
) -> None:
    """All that is under way in trials of which a move needs any of it; into the flights' tables."""
    pending = {}
    for trial, move in moves.items():
        if move.jobs["done"].all():
            continue
        jobs = joined(move.jobs, under_way(flights[trial]))
        pending[trial] = jobs[~jobs["done"] & ~jobs["lost"]]
        fresh = pending[trial]["version"] == versions[trial]
        _begin(parts, state, trial, flights[trial], pending[trial][fresh])
    remembers = state.client.shape[2] + state.memory.shape[2] > 0
    while any(len(jobs) for jobs in pending.values()):
        turn = {}
        for trial, jobs in pending.items():
            first = np.arange(len(jobs))
            if remembers:  # who has two jobs begins the second with what it remembers of the first
                jobs = jobs[np.argsort(jobs["number"], kind="stable")]
                first = np.sort(np.unique(jobs["client"], return_index=True)[1])
            turn[trial], pending[trial] = jobs[first], np.delete(jobs, first)
        _together(parts, state, flights, turn)
    for trial in pending:
        for jobs in (flights[trial].jobs, flights[trial].landed, moves[trial].jobs):
            jobs["done"] |= ~jobs["lost"]


def _together(parts: Parts, state: State, flights: Mapping[int, Flight], turn: Mapping[int, Array]) -> None:
    trials, places = state.anchor.shape[0], parts.places
    columns = {name: np.zeros((trials, places), np.int64) for name in ("client", "steps", "number")}
    lr, known = np.ones((trials, places)), np.ones((trials, places))
    opening = plausible.doubt(parts.method.combine).opening
    for trial, jobs in turn.items():
        for name, column in columns.items():
            column[trial, jobs["place"]] = jobs[name]
        unknown = np.isnan(jobs["lr"])
        lr[trial, jobs["place"]] = np.where(unknown, opening, jobs["lr"])
        known[trial, jobs["place"]] = ~unknown
    some = next(flights[trial].table for trial in turn)
    began = [
        np.stack([flights[t].table[name] if t in turn else some[name] for t in range(trials)])
        for name in BEGAN
    ]
    rows = np.arange(trials)[:, None], columns["client"]
    starts = Starts(began[0], began[1], state.client[rows], state.memory[rows], began[2])
    asked = Jobs(columns["client"], columns["steps"], lr, known, columns["number"])
    done = parts.engine.work(starts, asked)
    readings = np.stack([np.asarray(part) for part in done.readings], -1)
    for trial, mine in turn.items():
        at, table = mine["place"], flights[trial].table
        for name, part in zip(CAME, done.upload, strict=True):
            table[name][at] = part[trial, at]
        table["reading"][at] = readings[trial, at]
        state.client[trial, mine["client"]] = done.client[trial, at]
        state.memory[trial, mine["client"]] = done.memory[trial, at]


def settle(
    parts: Parts, state: State, trial: int, flight: Flight, move: Move, version: int
) -> tuple[State, Reading, dict[str, Any]]:
    """The server's move with what came in, each upload by its age; the readings of those who came, and what
    a rule made of them."""
    jobs, table, method, dtype = move.jobs, flight.table, parts.method, parts.task.dtype
    anchor, server = state.anchor[trial], state.server[trial]
    uploads = []
    for job in jobs:
        sent = Upload(*(table[name][job["place"]] for name in CAME))
        worth = dtype(parts.worth(int(version - job["version"])))
        began = table["anchor"][job["place"]] if job["version"] < version else None
        uploads.append(protocol.aged(method, sent, worth, anchor, began))
    clients = jobs["client"]
    weights, steps = parts.weights[trial, clients].astype(dtype), jobs["steps"].astype(dtype)
    foes = None
    if method.attacks:
        words = parts.foes.words(parts.task.seeds[trial], version, clients)
        foes = parts.foes.who[trial, clients], words
    reading = Reading(*table["reading"][jobs["place"]].T)
    losses = reading.loss if reading.grad_sq.any() else None  # where clients say it
    moved, fresh, weighed = protocol.settle(method, anchor, server, uploads, weights, steps, foes, losses)
    after = State(state.anchor.copy(), state.server.copy(), state.client, state.memory, state.step.copy())
    after.anchor[trial], after.server[trial], after.step[trial] = moved, fresh, moved - anchor
    return after, Reading(*(np.asarray(part, float) for part in reading)), weighed
