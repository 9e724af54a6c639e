"""What becomes of work that the server does not take in one piece from its newest model.

Everything under way is computed together, each job from the model it began from, when the first of it is
needed; a job's model and its upload lie in a table by its place, for as long as it is under way.
"""

from collections.abc import Mapping

import numpy as np

from amsfl import protocol
from amsfl.core import Reading, Upload
from amsfl.engines import Jobs, JobStarts, State
from amsfl.record.schema import Array
from amsfl.simulation.event_queue import EventQueue, join_jobs, under_way
from amsfl.simulation.plan_round import RoundPlan, TrialPlan
from amsfl.simulation.round_record import TrialResult
from amsfl.simulation.setup import RunSetup

BEGAN, UPLOADED = ("anchor", "server", "step"), Upload._fields
FEW = 64  # jobs for which no smaller program is worth compiling


def on_host(state: State) -> State:
    """The state as numpy arrays that may be written to.

    Clients' own parts are large, and nobody needs their old values: they are copied only if they must be.
    """

    def writable(part: Array) -> Array:
        return part if isinstance(part, np.ndarray) and part.flags.writeable else np.array(part)

    copies = {name: np.array(getattr(state, name)) for name in ("anchor", "server", "step")}
    own = {name: writable(getattr(state, name)) for name in ("client", "memory", "history")}
    return State(**copies, **own)


def remember(setup: RunSetup, state: State, trial: int, plan: TrialPlan) -> None:
    """Before the server moves, store the model that jobs began from which are not computed yet."""
    left = under_way(plan.after.queue)
    pending = ~left["done"] & ~left["lost"] & (left["version"] == plan.version)
    _store_start(setup, state, trial, plan.after.queue, left[pending])


def _store_start(setup: RunSetup, state: State, trial: int, queue: EventQueue, jobs: Array) -> None:
    if not len(jobs):
        return
    table = queue.table = _table_with_rows(setup, queue.table, int(jobs["place"].max()) + 1)
    anchor, server, step = (np.asarray(part[trial]) for part in (state.anchor, state.server, state.step))
    table["anchor"][jobs["place"]] = anchor
    table["server"][jobs["place"]] = protocol.sent_state(setup.method, server, anchor)
    table["step"][jobs["place"]] = step


def _table_with_rows(setup: RunSetup, table: dict[str, Array], places: int) -> dict[str, Array]:
    """The table with at least so many rows; more are needed if any number of results may wait."""
    if not table:
        return _empty(setup, max(setup.places, places))
    rows = len(table["anchor"])
    return table if places <= rows else {key: _padded(part, 2 * places) for key, part in table.items()}


def _empty(setup: RunSetup, places: int) -> dict[str, Array]:
    """A table of zeros with so many rows."""
    x, dtype = np.zeros(setup.task.dim, setup.task.dtype), setup.task.dtype
    server, client = setup.method.arithmetic.init(x)
    server_state = protocol.sent_state(setup.method, server, x)
    sent = setup.method.arithmetic.report(x, x, 1, 1.0, server_state, client)[0]
    shapes = {"anchor": x, "server": server_state, "step": x, **sent._asdict()}
    shapes["reading"] = np.zeros(len(Reading._fields))
    return {key: np.zeros((places, *np.shape(part)), dtype) for key, part in shapes.items()}


def compute(setup: RunSetup, state: State, plan: RoundPlan) -> None:
    """Compute all jobs under way of trials whose move needs one of them, into the queues' tables."""
    pending = {}
    for trial, each in plan.items():
        queue = each.after.queue
        if each.move.jobs["done"].all():
            continue
        jobs = join_jobs(each.move.jobs, under_way(queue))
        pending[trial] = jobs[~jobs["done"] & ~jobs["lost"]]
        fresh = pending[trial]["version"] == each.version
        _store_start(setup, state, trial, queue, pending[trial][fresh])
    queues = {trial: plan[trial].after.queue for trial in pending}
    remembers = state.client.shape[2] + state.memory.shape[2] > 0
    while any(len(jobs) for jobs in pending.values()):
        turn = {}
        for trial, jobs in pending.items():
            first = np.arange(len(jobs))
            if remembers:  # who has two jobs begins the second with what it remembers of the first
                jobs = jobs[np.argsort(jobs["number"], kind="stable")]
                first = np.sort(np.unique(jobs["client"], return_index=True)[1])
            turn[trial], pending[trial] = jobs[first], np.delete(jobs, first)
        _compute_together(setup, state, queues, turn)
    for trial in pending:
        for jobs in (queues[trial].jobs, queues[trial].arrived, plan[trial].move.jobs):
            jobs["done"] |= ~jobs["lost"]


def _compute_together(
    setup: RunSetup, state: State, queues: Mapping[int, EventQueue], turn: Mapping[int, Array]
) -> None:
    jobs = join_jobs(*turn.values())
    trial = np.repeat(list(turn), [len(mine) for mine in turn.values()])
    room = program_rows(len(jobs), max(len(setup.configs) * setup.places, len(jobs)))
    columns = (trial, *(jobs[name] for name in ("client", "steps", "lr", "number")))
    began = [
        np.concatenate([queues[index].table[name][mine["place"]] for index, mine in turn.items()])
        for name in BEGAN
    ]
    own = (part[trial, jobs["client"]] for part in (state.client, state.memory))
    starts = JobStarts(*(_padded(part, room) for part in (*began[:2], *own, began[2])))
    done = setup.engine.work(starts, Jobs(*(_padded(column, room) for column in columns)))
    readings = np.stack([np.asarray(part) for part in done.readings], -1)
    begin = 0
    for index, mine in turn.items():
        at, table, rows = mine["place"], queues[index].table, slice(begin, begin + len(mine))
        for name, part in zip(UPLOADED, done.upload, strict=True):
            table[name][at] = part[rows]
        table["reading"][at] = readings[rows]
        state.client[index, mine["client"]] = done.client[rows]
        state.memory[index, mine["client"]] = done.memory[rows]
        begin += len(mine)


def program_rows(jobs: int, most: int) -> int:
    """The rows of a compiled program for so many jobs: `most`, a quarter of it, a sixteenth and so on.

    So a few programs serve any number of jobs, and arrays are not mostly empty.
    """
    room = most
    while room > FEW and -(-room // 4) >= jobs:
        room = -(-room // 4)
    return room


def _padded(part: Array, rows: int) -> Array:
    """With zeros behind it: jobs of no steps."""
    whole = np.zeros((rows, *part.shape[1:]), part.dtype)
    whole[: len(part)] = part
    return whole


def settle(setup: RunSetup, state: State, trial: int, plan: TrialPlan) -> TrialResult:
    """The server's move with the results that arrived, each weighed by its age; changes the state."""
    jobs, table, version = plan.move.jobs, plan.after.queue.table, plan.version
    method, dtype = setup.method, setup.task.dtype
    anchor, server = state.anchor[trial], state.server[trial]
    uploads = []
    for job in jobs:
        sent = Upload(*(table[name][job["place"]] for name in UPLOADED))
        worth = dtype(setup.end.weight(int(version - job["version"])))
        began = table["anchor"][job["place"]] if job["version"] < version else None
        uploads.append(protocol.weigh_by_age(method, sent, worth, anchor, began))
    clients = jobs["client"]
    weights, steps = setup.weights[trial, clients].astype(dtype), jobs["steps"].astype(dtype)
    attackers = setup.attackers.forging(version, trial, clients) if method.attacks else None
    reading = Reading(*table["reading"][jobs["place"]].T)
    history = state.history[trial, clients]
    cohort = protocol.CohortWork(
        uploads, weights, steps, attackers, age=float(np.mean(version - jobs["version"])), history=history
    )
    moved, fresh, weighed, history = protocol.settle(method, anchor, server, cohort)
    state.history[trial, clients] = history
    state.step[trial] = moved - anchor
    state.anchor[trial], state.server[trial] = moved, fresh
    deltas = np.stack([each.delta for each in uploads])
    known = Reading(*(np.array(part, float) for part in reading))
    for judged in (known.held_loss, known.spread):
        judged[jobs["version"] < version] = np.nan  # of an older model
    return TrialResult(known, weighed, deltas)
