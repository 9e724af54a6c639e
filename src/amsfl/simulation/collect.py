"""What becomes of work that the server does not take in one piece from its newest model.

Everything under way is computed together, each job from the model it began from, when the first of it is
needed; a job's model and its upload lie in a table by its place, for as long as it is under way.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from amsfl import protocol
from amsfl.core import Reading, Upload
from amsfl.drift import plausibility
from amsfl.engines import Jobs, JobStarts, State
from amsfl.simulation.event_queue import Flight, Move, alike, joined, under_way
from amsfl.simulation.setup import Parts

Array = np.ndarray[Any, np.dtype[Any]]
BEGAN, CAME = ("anchor", "server", "step"), Upload._fields
FEW = 64  # jobs for which no smaller program is worth compiling


def seen(parts: Parts, move: Move, version: int) -> Move:
    """The move, and whether it takes one full cohort that has just begun from the newest model."""
    jobs = move.jobs
    fresh = (jobs["number"] == version) & (jobs["version"] == version) & ~jobs["done"]
    full = (
        len(jobs) == parts.cohort or parts.method.private_clients is not None
    )  # whose cohorts have no fixed size
    return move._replace(whole=bool(full and fresh.all() and alike(jobs["lr"])))


def on_host(state: State) -> State:
    """The state as numpy arrays that may be written to. Clients' own parts are large, and nobody has a use
    for what they were: those are not copied again."""
    client, memory = (part if _ours(part) else np.array(part) for part in (state.client, state.memory))
    return State(np.array(state.anchor), np.array(state.server), client, memory, np.array(state.step))


def _ours(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.flags.writeable


def remember(parts: Parts, state: State, trial: int, flight: Flight, version: int) -> None:
    """Before the server moves: what is still to be computed keeps the model that it began from."""
    left = under_way(flight)
    if not len(left):
        return
    _begin(parts, state, trial, flight, left[~left["done"] & ~left["lost"] & (left["version"] == version)])


def _begin(parts: Parts, state: State, trial: int, flight: Flight, jobs: Array) -> None:
    if not len(jobs):
        return
    table = flight.table = _roomy_table(parts, flight.table, int(jobs["place"].max()) + 1)
    rows = {"anchor": state.anchor, "server": state.server, "step": state.step}
    for name, part in rows.items():
        row = np.asarray(part[trial])
        if name == "server":
            row = parts.method.sent_state(row, np.asarray(state.anchor[trial]))
        table[name][jobs["place"]] = row


def _roomy_table(parts: Parts, table: dict[str, Array], places: int) -> dict[str, Array]:
    """The table with so many rows at least: a round end that bounds no move lets any number wait for one."""
    if not table:
        return _empty(parts, max(parts.places, places))
    rows = len(table["anchor"])
    return table if places <= rows else {key: _padded(part, 2 * places) for key, part in table.items()}


def _empty(parts: Parts, places: int) -> dict[str, Array]:
    """A table of so many places: zeros."""
    x, dtype = np.zeros(parts.task.dim, parts.task.dtype), parts.task.dtype
    server, client = parts.method.arithmetic.init(x)
    told = parts.method.sent_state(server, x)
    sent = parts.method.arithmetic.report(x, x, 1, 1.0, told, client)[0]
    shapes = {"anchor": x, "server": told, "step": x, **sent._asdict()}
    shapes["reading"] = np.zeros(len(Reading._fields))
    return {key: np.zeros((places, *np.shape(part)), dtype) for key, part in shapes.items()}


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
    jobs = joined(*turn.values())
    trial = np.repeat(list(turn), [len(mine) for mine in turn.values()])
    room = roomy(len(jobs), max(len(parts.configs) * parts.places, len(jobs)))
    unknown = np.isnan(jobs["lr"])
    lr = np.where(unknown, plausibility.believing(parts.method.combine).opening, jobs["lr"])
    columns = (trial, jobs["client"], jobs["steps"], lr, ~unknown, jobs["number"])
    began = [
        np.concatenate([flights[index].table[name][mine["place"]] for index, mine in turn.items()])
        for name in BEGAN
    ]
    own = (part[trial, jobs["client"]] for part in (state.client, state.memory))
    starts = JobStarts(*(_padded(part, room) for part in (*began[:2], *own, began[2])))
    done = parts.engine.work(starts, Jobs(*(_padded(column, room) for column in columns)))
    readings = np.stack([np.asarray(part) for part in done.readings], -1)
    begin = 0
    for index, mine in turn.items():
        at, table, here = mine["place"], flights[index].table, slice(begin, begin + len(mine))
        for name, part in zip(CAME, done.upload, strict=True):
            table[name][at] = part[here]
        table["reading"][at] = readings[here]
        state.client[index, mine["client"]] = done.client[here]
        state.memory[index, mine["client"]] = done.memory[here]
        begin += len(mine)


def roomy(jobs: int, most: int) -> int:
    """Rows for so many jobs, where there may be `most`: that, a quarter, a sixteenth and so on. Few programs
    serve any number of jobs, and what goes to the engine and back is not mostly empty."""
    room = most
    while room > FEW and -(-room // 4) >= jobs:
        room = -(-room // 4)
    return room


def _padded(part: Array, rows: int) -> Array:
    """With jobs of no steps behind: nobody is there."""
    whole = np.zeros((rows, *part.shape[1:]), part.dtype)
    whole[: len(part)] = part
    return whole


def settle(
    parts: Parts, state: State, trial: int, flight: Flight, move: Move, version: int
) -> tuple[Reading, dict[str, Any]]:
    """The server's move with what came in, each upload by its age, written into the state; the readings of
    those who came, and what a rule made of them."""
    jobs, table, method, dtype = move.jobs, flight.table, parts.method, parts.task.dtype
    anchor, server = state.anchor[trial], state.server[trial]
    uploads = []
    for job in jobs:
        sent = Upload(*(table[name][job["place"]] for name in CAME))
        worth = dtype(parts.end.weight(int(version - job["version"])))
        began = table["anchor"][job["place"]] if job["version"] < version else None
        uploads.append(protocol.weigh_by_age(method, sent, worth, anchor, began))
    clients = jobs["client"]
    weights, steps = parts.weights[trial, clients].astype(dtype), jobs["steps"].astype(dtype)
    attackers = None
    if method.attacks:
        words = parts.foes.words(parts.task.seeds[trial], version, clients)
        attackers = parts.foes.forging(version, trial, clients), words
    reading = Reading(*table["reading"][jobs["place"]].T)
    losses = reading.loss if reading.grad_sq.any() else None  # where clients say it
    cohort = protocol.CohortWork(uploads, weights, steps, attackers, losses)
    moved, fresh, weighed = protocol.settle(method, anchor, server, cohort)
    state.step[trial] = moved - anchor
    state.anchor[trial], state.server[trial] = moved, fresh
    return Reading(*(np.asarray(part, float) for part in reading)), weighed
