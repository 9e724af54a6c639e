"""When the server moves on, as one object: the only thing that a server asks, simulated or real.

A kind is a function of its numbers that returns a RoundEnd, and one line in ROUND_ENDS; a user names one as
`module:attribute` or passes the object. With it: what late work counts, and FedCompass's arrival groups.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from amsfl.core import Kind, UserError, nearest

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Weight = Callable[[float], float]  # by age in moves of the server

MANY = 10**9  # a cohort's size where nobody knows it yet
HOPELESS = 1_000  # failures, or moments for each client, after which a round does not end
LEAST, LATEST = 0.2, 1.2  # of its steps; of its planned seconds, for which an arrival group is waited for
UNGROUPED = 0  # the group of all who have no arrival group of their own


def sqrt(age: float) -> float:
    """1/sqrt(1 + age), as in FedBuff."""
    return 1 / math.sqrt(1 + age)


class ArrivalGroup(NamedTuple):
    """Clients that are waited for together: who is planned to arrive at one time, or all of no group."""

    started: float  # when its first client started
    due: float  # when its clients are planned to arrive
    latest: float | None  # when the server does not wait for them any longer
    turn: float  # seconds that its fastest client needs for as many steps as it may take


class Starter(NamedTuple):
    """A client that is about to start: c t + b seconds for t steps, of which it takes `most` at most."""

    step_seconds: float
    comm_seconds: float
    most: int
    first: bool = False  # nobody has measured its speed yet

    def seconds(self, steps: int) -> float:
        return self.step_seconds * steps + self.comm_seconds

    def within(self, seconds: float) -> int:
        """The steps that it can take in so many seconds; binary fractions do not cost one."""
        return math.floor((seconds - self.comm_seconds) / self.step_seconds * (1 + 1e-12) + 1e-9)


# how many steps it takes, and the group it arrives with; None: a new one, UNGROUPED: it is not waited for
Join = Callable[[Starter, float, Mapping[int, ArrivalGroup]], tuple[int, int | None]]


class RoundEnd(NamedTuple):
    """When the server moves on, and what becomes of those who are late.

    The server makes a new model, it *moves*, when at least one result has arrived and either `ready` says so
    or the deadline has passed. It takes all results that have arrived, `size` at most, in the order of their
    arrival. Times are seconds of the server's own clock.

    name: as the setting spells it, as in quorum:3.
    ready(arrived, expected, now, started): whether the server may move. `arrived` results wait to be taken,
        `expected` clients are at work and have not answered, `started` is when the server invited clients
        after its last move. Clients that failed or left are in neither number.
    deadline(started, predicted): the time at which the server moves at the latest, None: there is none.
        `predicted` is how many seconds the plan gives the slowest of the invited clients, None: unknown. If
        nobody has arrived by then, it moves with the first who does.
    overlap: clients start again as soon as they have answered. If not, the server invites a cohort after
        each move, and again only if nobody is at work.
    late: what becomes of clients that are at work when the server moves. stale: they go on, and their
        results are taken by a later move. drop: their results are thrown away.
    weight(age): the factor on a result that was computed from a model `age` moves old; 1 for age 0.
    size: results that one move takes at most; the others wait for the next one. None: all.
    join: gives a client that starts its steps and its arrival group (clock/round_end.py). `ready` and
        `deadline` are then asked for each group by itself, and results that arrive after their group's move
        are taken by the next move, besides those of its group. None: everybody is one group.
    """

    name: str
    ready: Callable[[int, int, float, float], bool]
    deadline: Callable[[float, float | None], float | None] = lambda started, predicted: None
    overlap: bool = False
    late: Literal["drop", "stale"] = "stale"
    weight: Weight = sqrt
    size: int | None = None
    join: Join | None = None

    @property
    def waits_for_all(self) -> bool:
        """Whether every move takes exactly the cohort that was invited for it."""
        one_missing, nobody_missing = (self.ready(MANY, some, math.inf, 0.0) for some in (1, 0))
        early = one_missing or self.deadline(0.0, 1.0) is not None
        return nobody_missing and not (early or self.overlap)


def all_in(arrived: int, expected: int, now: float, started: float) -> bool:
    """Ready when nobody is at work any more."""
    return expected == 0


def wait_for_all() -> RoundEnd:
    return RoundEnd("all", all_in)


def after_seconds(seconds: float) -> RoundEnd:
    if not 0 < seconds <= 1e9:
        raise UserError(f"A round of {seconds:g} seconds: write its seconds, as in --round-end deadline:2.5.")
    return RoundEnd(f"deadline:{seconds:g}", all_in, lambda started, predicted: started + seconds)


def quorum(clients: float, cohort: int = MANY) -> RoundEnd:
    """When so many are in, or such a share of the cohort; or when nobody else is at work."""
    share = 0 < clients < 1
    wanted = math.ceil(clients * cohort) if share else _count("quorum", clients, cohort)
    return RoundEnd(f"quorum:{clients:g}", lambda arrived, expected, *_: arrived >= wanted or expected == 0)


def buffer(results: float | None = None, cohort: int = MANY) -> RoundEnd:
    """When so many results are in; clients do not wait for the server. By default 10, or half a cohort."""
    wanted = min(10, max(cohort // 2, 1)) if results is None else _count("buffer", results, cohort)
    return RoundEnd(f"buffer:{wanted}", lambda arrived, *_: arrived >= wanted, overlap=True, size=wanted)


def groups(cohort: int = MANY) -> RoundEnd:
    """When a group of clients that were to arrive together is in, or after LATEST times its planned time.

    Nobody waits for a client whose speed is unknown.
    """

    def deadline(started: float, predicted: float | None) -> float:
        return started if predicted is None else started + LATEST * predicted

    return RoundEnd("groups", all_in, deadline, overlap=True, size=cohort, join=fedcompass)


def _count(kind: str, number: float, cohort: int) -> int:
    if not (1 <= number <= 1e6 and number == int(number)):
        raise UserError(f"Round end '{kind}:{number:g}': write a number of clients, as in {kind}:3.")
    if number > cohort:
        raise UserError(
            f"Round end '{kind}:{number:g}' waits for {number:g} clients, and {cohort} are under way at a "
            "time; lower it, or raise --cohort."
        )
    return int(number)


ROUND_ENDS: Kind[RoundEnd] = Kind(
    "round end",
    RoundEnd,
    {
        "all": wait_for_all,
        "deadline": after_seconds,
        "quorum": quorum,
        "buffer": buffer,
        "groups": groups,
    },
)


def round_end(text: str, cohort: int | None = None) -> RoundEnd:
    """The round end of that name: `all`, `deadline:2.5`, `quorum:3`, `quorum:0.8`, `buffer:10`, `groups`,
    or a user's own `module:attribute`, with numbers behind a colon.

    After a comma stands what becomes of late work: `quorum:3,drop`, `buffer:10,constant`.

    Args:
        text: As the setting spells it.
        cohort: How many clients are at work at a time, where that is known.

    Returns:
        What both servers ask.
    """
    kind, *late = (part.strip() for part in text.split(","))
    end = ROUND_ENDS.numbered(kind, cohort=cohort)
    for word in late:
        drops = word in ("drop", "stale")
        if end.waits_for_all or (drops and end.overlap):
            raise UserError(f"Round end {text!r}: with {kind!r} there is no work to {word}; leave it out.")
        end = end._replace(late=word) if drops else end._replace(weight=staleness(word))  # type: ignore[arg-type]
        end = end._replace(name=f"{end.name},{word}")
    return end


def results_taken(
    end: RoundEnd, groups: Mapping[int, ArrivalGroup], arrived: Ints, expected: Ints, now: float
) -> Flags:
    """Which of the results that have arrived the server moves with now; none: it goes on waiting.

    `groups` are the open ones, UNGROUPED among them; `arrived` is the group of each result, in the order of
    arrival, `expected` that of each client at work.
    """
    late: Flags = ~np.isin(arrived, [*groups])  # to its group's move
    for name in sorted({*arrived[~late].tolist()}):
        group, mine = groups[name], arrived == name
        here, missing = int(np.count_nonzero(mine)), int(np.count_nonzero(expected == name))
        closed = group.latest is not None and now >= group.latest
        if closed or end.ready(here, missing, now, group.started):
            late[np.flatnonzero(mine)[: end.size]] = True
            return late
    enough = late.any() and np.count_nonzero(late) >= max((end.size or 1) - 1, 1)
    return late if enough else np.zeros(len(arrived), bool)


def check_progress(end: RoundEnd, number: int, waits: float, arrived: int, dropped: int) -> None:
    """A UserError where a round will never end: `waits` for every client of the largest cohort so far."""
    if dropped > HOPELESS and not arrived:
        raise UserError(f"Round {number}: {HOPELESS:,} clients failed; lower --failure, or the profile's.")
    if waits > HOPELESS:
        raise UserError(
            f"Round {number} does not end: {arrived:,} results are in, of clients that were asked again and "
            f"again, and the round end {end.name!r} takes none; its `ready` has to be true of some."
        )


WEIGHTS: dict[str, Weight] = {"sqrt": sqrt, "constant": lambda age: 1.0}


def staleness(name: str) -> Weight:
    """The weight of late work by its age t: sqrt, 1/sqrt(1+t), or constant, 1."""
    if name not in WEIGHTS:
        raise UserError(f"Unknown staleness {name!r}{nearest(name, WEIGHTS)}.")
    return WEIGHTS[name]


def fedcompass(client: Starter, now: float, groups: Mapping[int, ArrivalGroup]) -> tuple[int, int | None]:
    """Li et al. 2024, arXiv 2309.14675, Algorithm 1, as in the authors' code (APPFL, its CompassScheduler).

    A client joins the group that lets it take the most steps, the newest where several do. Where it fits
    none, it opens a group: it takes the steps after which the fastest client of an existing group, started
    again with all its steps at that group's latest time, would be back as well, so that both can meet then.
    If it is too fast for that, it takes all its steps. A client's first round has the fewest steps, and
    nobody waits for it. Their speed is a round's seconds over its steps, smoothed; ours has the link apart.
    """
    least = max(1, round(LEAST * client.most))
    if client.first:
        return least, UNGROUPED
    joined = [(client.within(each.due - now), name) for name, each in groups.items()]
    fits = [(steps, name) for steps, name in joined if least <= steps <= client.most]
    if fits:
        return max(reversed(fits), key=lambda fit: fit[0])
    later = [
        client.within(each.latest + each.turn - now)
        for each in groups.values()
        if each.latest is not None and each.latest > now
    ]
    best = max((steps for steps in later if steps <= client.most), default=client.most)
    return max(best, least), None
