"""Who is under way: one queue of events in virtual time. A synchronous round is one of its cases.

The server invites clients to free places; each brings its work after the seconds that its steps and its link
take; the server moves when enough of them are in (clock/round_end.py). Models play no part: who comes when
follows from steps and speeds alone, so that work may be computed later, and together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock import ArrivalGroup, RoundEnd, Waiting, results_taken
from amsfl.core import UserError

Array = np.ndarray[Any, np.dtype[Any]]

JOB = np.dtype(
    [
        ("client", np.int64),
        ("place", np.int64),  # in the table of what is under way
        ("number", np.int64),  # seeds its minibatches: the server's moves so far, or more, see `numbers`
        ("version", np.int64),  # how often the server had moved when it started
        ("steps", np.int64),
        ("lr", np.float64),  # NaN: nobody knew one yet
        ("started", np.float64),
        ("arrives", np.float64),
        ("lost", np.bool_),  # comes to nothing: at `arrives` the server learns that it failed
        ("done", np.bool_),  # computed
        ("group", np.int64),  # of those who were invited with it, and its place among them
        ("nth", np.int64),
        ("meets", np.int64),  # the arrival group that it is waited for with
    ]
)
NOBODY: Array = np.zeros(0, JOB)
PAIRS = ("numbers", "told", "begun", "meetings")  # of a Flight: dicts whose keys are numbers
HOPELESS = 1_000  # clients in a row that came with nothing


@dataclass
class Flight:
    """A trial's queue; a job is one client's local round, and all of it but the model is known beforehand."""

    jobs: Array = field(default_factory=NOBODY.copy)  # under way
    landed: Array = field(default_factory=NOBODY.copy)  # in, and not yet part of a model
    dropped: Array = field(default_factory=NOBODY.copy)  # failed since the last move
    numbers: dict[int, int] = field(default_factory=dict)  # the last `number` of clients that are ahead
    told: dict[int, dict[str, Any]] = field(default_factory=dict)  # by group: why these steps
    opened: float = 0.0  # when the server last invited a round
    invited: int = -1  # and the version that it then had
    groups: int = 0
    begun: dict[int, int] = field(default_factory=dict)  # steps of every client that ever started
    everyone: Any = None  # all clients' steps, where they are planned once and for all
    meetings: dict[int, ArrivalGroup] = field(default_factory=dict)  # that the server still waits for
    predicted: float | None = None  # seconds that the plan gives the last who were invited
    table: dict[str, Array] = field(default_factory=dict)  # by place: what a job began from and came to

    def count(self, jobs: Array) -> None:
        """Steps count before they are run, and also where nothing comes of them: privacy is spent by then."""
        for who, steps in zip(jobs["client"].tolist(), jobs["steps"].tolist(), strict=True):
            self.begun[who] = self.begun.get(who, 0) + steps

    def taken(self, clients: int) -> "Taken":
        """Steps that every client has begun."""
        return Taken(self.begun, range(clients))

    def dump(self) -> dict[str, Any]:
        """As JSON holds it, whose keys are text; the table of models is not JSON's."""
        arrays = {key: getattr(self, key).tolist() for key in ("jobs", "landed", "dropped")}
        pairs = {key: list(getattr(self, key).items()) for key in PAIRS}
        whole = vars(self) | arrays | pairs
        return {key: value for key, value in whole.items() if key not in ("table", "everyone")}

    @classmethod
    def load(cls, told: dict[str, Any], table: dict[str, Array]) -> "Flight":
        arrays = {
            key: np.array([tuple(row) for row in told[key]], JOB) for key in ("jobs", "landed", "dropped")
        }
        pairs: dict[str, Any] = {key: dict(told.get(key, ())) for key in PAIRS}
        pairs["meetings"] = {name: ArrivalGroup(*each) for name, each in pairs["meetings"].items()}
        return cls(**told | arrays | pairs, table=table)


class Taken(Sequence[int]):
    """Every client's steps without a list of them: most runs never look, and there may be 100,000 clients."""

    def __init__(self, begun: Mapping[int, int], clients: range):
        self.begun, self.clients = begun, clients

    def __len__(self) -> int:
        return len(self.clients)

    def __getitem__(self, place: Any) -> Any:
        found = self.clients[place]
        return Taken(self.begun, found) if isinstance(found, range) else self.begun.get(found, 0)


class Move(NamedTuple):
    """What the server moves with, when, and what it does not wait for."""

    jobs: Array
    seconds: float
    dropped: Array
    whole: bool = False  # one full cohort that has just begun from the newest model: a synchronous round


Invite = Callable[[float], Array]


def next_move(flight: Flight, now: float, version: int, end: RoundEnd, invite: Invite) -> Move:
    """Let time go on until the server moves; `invite(now)` makes jobs of those who start at free places."""
    while not (chosen := _chosen(flight, now, end)).any():
        fresh = flight.invited != version
        if fresh:
            flight.opened, flight.invited = now, version
        if fresh or end.overlap or not len(flight.jobs):
            flight.jobs = joined(flight.jobs, invite(now))
        now = _next_instant(flight, now, end)
        if len(flight.dropped) > HOPELESS and not len(flight.landed):
            raise UserError(
                f"Round {version + 1}: {HOPELESS:,} clients in a row came to nothing; lower --failure, or "
                "the profile's."
            )
    taken = _some(flight.landed, chosen)
    late = (flight.jobs if end.late == "drop" else NOBODY).copy()
    late["arrives"] = now
    move = Move(in_order(taken), now, joined(flight.dropped, late))
    if flight.meetings:
        over = taken["meets"].tolist()
        flight.meetings = {name: each for name, each in flight.meetings.items() if name not in over}
    flight.landed, flight.dropped = _some(flight.landed, ~chosen), NOBODY
    flight.jobs = flight.jobs[len(late) :]
    return move


def _some(jobs: Array, chosen: Array) -> Array:
    """Those of them; all and none, as most often, without a copy."""
    count = np.count_nonzero(chosen)
    return jobs[chosen] if 0 < count < len(jobs) else jobs if count else NOBODY


def _chosen(flight: Flight, now: float, end: RoundEnd) -> Array:
    """Whose work of all that is in the server moves with now; nobody's: it waits."""
    return results_taken(end, _waiting(flight), flight.landed["meets"], flight.jobs["meets"], now)


def _waiting(flight: Flight) -> Waiting:
    return Waiting(flight.opened, flight.predicted, flight.meetings)


def _next_instant(flight: Flight, now: float, end: RoundEnd) -> float:
    """The next moment at which anything happens; all that happens then has happened.

    Of those who come at one moment the lower client is first, as a synchronous cohort is summed.
    """
    if end.waits_for_all:  # nothing happens until the last of them
        flight.jobs, here = NOBODY, flight.jobs[flight.jobs["arrives"].argsort(kind="stable")]
        _land(flight, here)
        return float(here["arrives"][-1])
    closing = min((each for each in _waiting(flight).deadlines(end) if each > now), default=np.inf)
    flight.meetings = _still_open(flight, now)
    then = float(flight.jobs["arrives"].min())
    if closing < then:
        return closing
    come = flight.jobs["arrives"] == then
    here = in_order(flight.jobs[come])
    flight.jobs = flight.jobs[~come]
    _land(flight, here)
    return then


def _still_open(flight: Flight, now: float) -> dict[int, ArrivalGroup]:
    """Groups whose time is not up, or of which somebody has arrived."""
    here = {*flight.landed["meets"].tolist()} if flight.meetings else set()
    return {
        name: each
        for name, each in flight.meetings.items()
        if each.latest is None or each.latest > now or name in here
    }


def _land(flight: Flight, here: Array) -> None:
    """They are in, or the server learns that they came to nothing."""
    lost = here["lost"]
    flight.landed = joined(flight.landed, _some(here, ~lost))
    flight.dropped = joined(flight.dropped, _some(here, lost))


def in_order(jobs: Array) -> Array:
    """By client; of one client's the first begun is first."""
    return jobs[np.lexsort((jobs["number"], jobs["client"]))]


def joined(*parts: Array) -> Array:
    """One after another, as bytes: numpy compares such records field by field, and that takes longer."""
    some = [part for part in parts if len(part)]
    if len(some) < 2:
        return some[0] if some else NOBODY
    return np.concatenate([np.ascontiguousarray(part).view(f"V{JOB.itemsize}") for part in some]).view(JOB)


def busy(flight: Flight) -> Array:
    """Clients that cannot start: under way, or waiting for the others of their arrival group."""
    if not flight.meetings:
        return np.asarray(flight.jobs["client"])
    waits = np.isin(flight.landed["meets"], list(flight.meetings))
    return np.concatenate([flight.jobs["client"], flight.landed["client"][waits]])


def under_way(flight: Flight) -> Array:
    """All whose work may still be needed."""
    return joined(flight.jobs, flight.landed)


def numbers(flight: Flight, clients: Array, version: int) -> Array:
    """The server's moves so far; more for a client that had that one: no minibatch is drawn twice."""
    found = [max(version, flight.numbers.get(int(who), -1) + 1) for who in clients] if flight.numbers else []
    wanted = np.array(found or np.full(len(clients), version), np.int64)
    flight.numbers |= dict(zip(clients.tolist(), wanted.tolist(), strict=True))
    return wanted


def tidy(flight: Flight, version: int) -> None:
    """After a move: numbers below the server's own say nothing any more, nor do old reasons."""
    flight.numbers = {who: number for who, number in flight.numbers.items() if number >= version}
    if not len(flight.jobs) and not len(flight.landed):
        flight.told = {}
        return
    alive = set(under_way(flight)["group"].tolist())
    flight.told = {group: told for group, told in flight.told.items() if group in alive}


def reasons(flight: Flight, jobs: Array) -> dict[str, Any]:
    """Why these steps, as a record keeps it: lists have one entry a client."""
    told = [flight.told[group] for group in jobs["group"].tolist()]
    if alike(jobs["group"]) and all(len(part) == len(jobs) for part in told[0].values() if _lists(part)):
        return told[0]
    rows = list(zip(told, jobs["nth"].tolist(), strict=True))
    return {
        key: [each[key][nth] for each, nth in rows] if _lists(value) else value
        for key, value in told[-1].items()
    }


def _lists(part: Any) -> bool:
    return isinstance(part, list)


def alike(column: Array) -> bool:
    """Whether all entries are the same; NaN is the same as NaN."""
    first = column[0]
    return bool((column == first).all() or (first != first and (column != column).all()))
