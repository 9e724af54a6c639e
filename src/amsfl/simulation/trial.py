"""Where one trial stands: numbers on the host, the server's and the clients' vectors, its checkpoint; and who
is under way: a queue of events in virtual time, where rounds may end before all are in.

The server invites clients to free places; each brings its work after the seconds that its steps and its link
take; the server moves when enough of them are in (clock/round_end.py). Models play no part: who comes when
follows from steps and speeds alone, so that work may be computed later, and together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amsfl import clock, protocol
from amsfl.clock.round_end import UNGROUPED, ArrivalGroup, RoundEnd, check_progress, results_taken
from amsfl.core.records import Array, Json
from amsfl.engines import Models
from amsfl.methods import Federation
from amsfl.planning.planner import Decision, PlannerMemory
from amsfl.record import Checkpoint

JOB = np.dtype(
    [
        ("client", np.int64),
        ("number", np.int64),  # seeds its minibatches: the server's moves so far, or more, see `numbers`
        ("version", np.int64),  # how often the server had moved when it started
        ("steps", np.int64),
        ("lr", np.float64),
        ("started", np.float64),
        ("arrives", np.float64),
        ("lost", np.bool_),  # comes to nothing: at `arrives` the server learns that it failed
        ("group", np.int64),  # of those who were invited with it, and its place among them
        ("nth", np.int64),
        ("arrival_group", np.int64),  # the arrival group that it is waited for with
    ]
)
NOBODY: Array = np.zeros(0, JOB)
ARRAYS = ("jobs", "arrived", "dropped")
PAIRS = ("numbers", "reasons", "open_groups")  # dicts whose keys are numbers


@dataclass
class EventQueue:
    """A trial's queue of jobs. A job is one client's local round; only its model is not known beforehand."""

    jobs: Array = field(default_factory=NOBODY.copy)  # under way
    arrived: Array = field(default_factory=NOBODY.copy)  # in, and not yet part of a model
    dropped: Array = field(default_factory=NOBODY.copy)  # failed since the last move
    numbers: dict[int, int] = field(default_factory=dict)  # the last `number` of clients that are ahead
    reasons: dict[int, Json] = field(default_factory=dict)  # by group: why these steps
    started: float = 0.0  # when the server last invited a round
    invited: int = -1  # and the version that it then had
    groups: int = 0
    plan_for_all: Any = None  # all clients' steps, where they are planned once and for all
    open_groups: dict[int, ArrivalGroup] = field(default_factory=dict)  # that the server still waits for
    predicted: float | None = None  # seconds that the plan gives the last who were invited
    models: dict[int, Models] = field(default_factory=dict)  # by version: older ones that jobs began from

    def waited_for(self, end: RoundEnd) -> dict[int, ArrivalGroup]:
        """The open groups, and those in none as one."""
        latest = end.deadline(self.started, self.predicted)
        return {UNGROUPED: ArrivalGroup(self.started, np.inf, latest, np.inf)} | self.open_groups

    def dump(self) -> Json:
        """For JSON, whose keys are text; without models."""
        arrays = {key: getattr(self, key).tolist() for key in ARRAYS}
        pairs = {key: list(getattr(self, key).items()) for key in PAIRS}
        whole = vars(self) | arrays | pairs
        return {key: value for key, value in whole.items() if key not in ("models", "plan_for_all")}

    @classmethod
    def load(cls, dumped: Json, models: dict[int, Models]) -> "EventQueue":
        arrays = {key: np.array([tuple(row) for row in dumped[key]], JOB) for key in ARRAYS}
        pairs: Json = {key: dict(dumped.get(key, ())) for key in PAIRS}
        pairs["open_groups"] = {name: ArrivalGroup(*each) for name, each in pairs["open_groups"].items()}
        return cls(**dumped | arrays | pairs, models=models)


OLDER, BEST = "older.", "best"  # models in a checkpoint: that work under way began from, the best round's
VECTORS = ("anchor", "server", "step", "client", "kept", "history")


@dataclass
class TrialState:
    """One trial's state; `host` of a checkpoint is exactly this, less its arrays and what is derived.
    Vectors that a method does without are empty."""

    index: int
    seed: int
    memory: PlannerMemory
    anchor: Array  # [dim] what clients begin from
    server: Array
    step: Array  # [dim] the last global step: the direction that readings compare with
    client: Array  # [clients, ...] of methods with a state at clients
    kept: Array  # [clients, ...] what a client remembers of its transmissions
    history: Array  # [clients, ...] what a robust rule remembers of each
    steps: Array  # int, of every client, of results that were taken
    begun: Array  # and of all that ever started, be they lost or under way
    round: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(clock.CLOCKS, 0.0))
    status: str = "running"
    spent: dict[str, float] = field(default_factory=dict)  # joules, megabytes so far
    reached: dict[str, float] | None = None  # seconds and rounds at the first evaluation that met the target
    best_score: float | None = None  # more is better (core/scores.py)
    best_round: int = 0
    best_model: Array | None = None  # what was scored then, where a run alone keeps it
    stale: int = 0  # scored rounds since then
    local: dict[str, list[float | None]] | None = None  # score of each client's own model, by split
    queue: EventQueue = field(default_factory=EventQueue)

    def checkpoint(self) -> Checkpoint:
        """All that the next round needs."""
        arrays = {name: getattr(self, name) for name in VECTORS}
        for version, models in self.queue.models.items():
            arrays |= {f"{OLDER}{version}.{key}": part for key, part in models._asdict().items()}
        if self.best_model is not None:
            arrays[BEST] = self.best_model
        own = {"memory": self.memory.dump(), "queue": self.queue.dump()}
        own |= {"steps": self.steps.tolist(), "begun": self.begun.tolist()}
        host = vars(self) | own | {"best_model": None}
        return Checkpoint(self.round, arrays, {key: each for key, each in host.items() if key not in VECTORS})


def first_state(
    index: int, seed: int, memory: PlannerMemory, federation: Federation, anchor: Array, clients: int
) -> TrialState:
    """A trial before its first round."""
    client, kept = (
        np.repeat(part[None], clients, 0) for part in protocol.initial_client_state(federation, anchor)
    )
    history = np.zeros((clients, 0 if federation.rule is None else federation.rule.remembers), anchor.dtype)
    server, none = federation.method.init(anchor)[0], np.zeros(clients, int)
    vectors = anchor, server, 0 * anchor, client, kept, history
    return TrialState(index, seed, memory, *vectors, none, none.copy())


def load_trial(point: Checkpoint) -> TrialState:
    """The trial whose checkpoint this is."""
    parts = point.under(OLDER)
    versions = {int(name.partition(".")[0]) for name in parts}
    older = {each: Models(*(parts[f"{each}.{name}"] for name in Models._fields)) for each in versions}
    own = {
        "memory": PlannerMemory.load(point.host["memory"]),
        "queue": EventQueue.load(point.host["queue"], older),
        "best_model": point.arrays.get(BEST),
        **{name: np.array(point.arrays[name]) for name in VECTORS},
        **{name: np.array(point.host[name], int) for name in ("steps", "begun")},
    }
    return TrialState(**point.host | own)


@dataclass
class Round:
    """One trial's round: what the server moves with, what was decided, what it takes; and what came of it."""

    jobs: Array  # whose results the server takes
    dropped: Array  # whose it does not wait for, or that failed
    decision: Decision
    took: Array  # seconds of each of the jobs
    seconds: dict[str, float]  # of the round by both clocks; by `sum`, clients' own seconds add up
    end: float  # when the server moves
    version: int  # how often it had moved before
    spent: dict[str, float] = field(default_factory=dict)  # joules and megabytes, lost work included
    weights: Any = None  # shares of all data and steps of the jobs' clients, in the vectors' own precision
    steps: Any = None
    reading: Any = None
    counted: Sequence[float] = ()  # how much each upload counts; () under a rule that compares uploads
    weighed: Json = field(default_factory=dict)  # how much each client counts after each link of a rule


Invite = Callable[[float], Array]


def next_move(
    queue: EventQueue, now: float, version: int, end: RoundEnd, invite: Invite
) -> tuple[Array, Array, float]:
    """Let time pass until the server moves: with which jobs, without which, and when. `invite(now)` returns
    the jobs of clients that start then."""
    moments, most = 0, 1
    while not (
        chosen := results_taken(
            end, queue.waited_for(end), queue.arrived["arrival_group"], queue.jobs["arrival_group"], now
        )
    ).any():
        fresh = queue.invited != version
        if fresh:
            queue.started, queue.invited = now, version
        if fresh or end.overlap or not len(queue.jobs):
            queue.jobs = join_jobs(queue.jobs, invite(now))
        moments, most = moments + 1, max(most, len(queue.jobs))
        waits = max(moments, len(queue.arrived)) / most
        check_progress(end, version + 1, waits, len(queue.arrived), len(queue.dropped))
        now = _next_instant(queue, now, end)
    taken = queue.arrived[chosen]
    late = (queue.jobs if end.late == "drop" else NOBODY).copy()
    late["arrives"] = now
    dropped = join_jobs(queue.dropped, late)
    if queue.open_groups:
        over = taken["arrival_group"].tolist()
        queue.open_groups = {name: each for name, each in queue.open_groups.items() if name not in over}
    queue.arrived, queue.dropped = queue.arrived[~chosen], NOBODY
    queue.jobs = queue.jobs[len(late) :]
    return in_order(taken), dropped, now


def _next_instant(queue: EventQueue, now: float, end: RoundEnd) -> float:
    """Go to the next moment at which a job arrives or a deadline passes, and return it.

    Of those who come at one moment the lower client is first, as a synchronous cohort is summed.
    """
    if end.waits_for_all:  # nothing happens until the last of them
        queue.jobs, here = NOBODY, queue.jobs[queue.jobs["arrives"].argsort(kind="stable")]
        _arrive(queue, here)
        return float(here["arrives"][-1])
    deadlines = (each.latest for each in queue.waited_for(end).values())
    closing = min((each for each in deadlines if each is not None and each > now), default=np.inf)
    # open stay those before their deadline, and those of which somebody has arrived
    arrived = {*queue.arrived["arrival_group"].tolist()} if queue.open_groups else set()
    queue.open_groups = {
        name: each
        for name, each in queue.open_groups.items()
        if each.latest is None or each.latest > now or name in arrived
    }
    then = float(queue.jobs["arrives"].min())
    if closing < then:
        return closing
    come = queue.jobs["arrives"] == then
    first, queue.jobs = in_order(queue.jobs[come]), queue.jobs[~come]
    _arrive(queue, first)
    return then


def _arrive(queue: EventQueue, here: Array) -> None:
    """Put jobs among the arrived ones, lost jobs among the dropped ones."""
    lost = here["lost"]
    queue.arrived = join_jobs(queue.arrived, here[~lost])
    queue.dropped = join_jobs(queue.dropped, here[lost])


def in_order(jobs: Array) -> Array:
    """Sorted by client, then by the order in which they began."""
    return jobs[np.lexsort((jobs["number"], jobs["client"]))]


def join_jobs(*parts: Array) -> Array:
    """Concatenated as bytes: numpy compares the fields of structured arrays one by one, which is slower."""
    some = [part for part in parts if len(part)]
    if len(some) < 2:
        return some[0] if some else NOBODY
    return np.concatenate([np.ascontiguousarray(part).view(f"V{JOB.itemsize}") for part in some]).view(JOB)


def busy_clients(queue: EventQueue, one_each: bool) -> Array:
    """Clients that cannot start: under way, or waiting for the others of their arrival group.

    With `one_each` also those that wait for the server's move, while others are under way: so it takes one
    result of each.
    """
    one_each = one_each and len(queue.jobs) > 0
    if not (queue.open_groups or one_each):
        return np.asarray(queue.jobs["client"])
    waits = one_each | np.isin(queue.arrived["arrival_group"], list(queue.open_groups))
    return np.concatenate([queue.jobs["client"], queue.arrived["client"][waits]])


def note_decision(queue: EventQueue, jobs: Array, decision: Decision) -> None:
    """Remember why these jobs have their steps, until their results are taken."""
    jobs["group"], jobs["nth"] = queue.groups, np.arange(len(jobs))
    queue.reasons[queue.groups] = decision.explain | {"predicted_seconds": decision.predicted_seconds}
    queue.groups += 1
    queue.predicted = float(decision.predicted_seconds)


def next_numbers(queue: EventQueue, clients: Array, version: int) -> Array:
    """Numbers of new jobs: the server's moves so far, or one more than the client's last number, so that no
    minibatch is drawn twice."""
    numbers = np.full(len(clients), version)
    if queue.numbers:
        last = [queue.numbers.get(who, -1) for who in clients.tolist()]
        numbers = np.maximum(numbers, np.array(last) + 1)
    queue.numbers |= dict(zip(clients.tolist(), numbers.tolist(), strict=True))
    return numbers


def tidy(queue: EventQueue, version: int) -> None:
    """After a move, forget numbers below the server's own, and reasons of jobs that are over."""
    queue.numbers = {who: number for who, number in queue.numbers.items() if number >= version}
    alive = {*queue.jobs["group"].tolist(), *queue.arrived["group"].tolist()}
    queue.reasons = {group: reasons for group, reasons in queue.reasons.items() if group in alive}


def all_equal(column: Array) -> bool:
    """Whether all entries are the same."""
    return bool((column == column[0]).all())


def reasons_of(queue: EventQueue, jobs: Array) -> Json:
    """Why these steps, as a record keeps it: lists have one entry a client."""
    reasons = [queue.reasons[group] for group in jobs["group"].tolist()]
    if all_equal(jobs["group"]) and all(
        len(part) == len(jobs) for part in reasons[0].values() if isinstance(part, list)
    ):
        return reasons[0]
    rows = list(zip(reasons, jobs["nth"].tolist(), strict=True))
    return {
        key: [each[key][nth] for each, nth in rows] if isinstance(value, list) else value
        for key, value in reasons[-1].items()
    }
