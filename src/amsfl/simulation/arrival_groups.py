"""Groups of clients that arrive together: who is in, who is late, and when a group is not waited for.

A job is known by its own number (`group` of a JOB; under this round end everybody is sent off by himself).
`meets` says which meeting it was sent to, nothing for a client's first round; `meetings` are those that are
still waited for.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from amsfl.schedule.fedcompass import ArrivalGroup

Array = np.ndarray[Any, np.dtype[Any]]
FIRST = -1  # of a client whose speed nobody had seen


def places(jobs: Array, meets: Mapping[int, int]) -> Array:
    """The meeting of each job, FIRST where it has none."""
    return np.array([meets.get(each, FIRST) for each in jobs["group"].tolist()], np.int64)


def late(landed: Array, meets: Mapping[int, int], meetings: Mapping[int, ArrivalGroup]) -> Array:
    """Who came when his meeting was over."""
    where = places(landed, meets)
    return np.array([each != FIRST and each not in meetings for each in where.tolist()], bool)


def taken(
    landed: Array,
    jobs: Array,
    meets: Mapping[int, int],
    meetings: Mapping[int, ArrivalGroup],
    now: float,
    enough: int,
) -> Array:
    """Whose work the server moves with now: a first round as it comes; a meeting where everybody is in, or
    whose time is up; and with either, all who came late to others. Nobody else's; with `enough` late ones,
    theirs: in the paper they wait for a group, however many they are."""
    where, behind = places(landed, meets), late(landed, meets, meetings)
    awaited = set(places(jobs, meets).tolist())
    for name in sorted({*where[~behind].tolist()}):
        if name == FIRST or name not in awaited or now >= meetings[name].latest:
            return np.asarray((where == name) | behind)
    return behind if behind.sum() >= max(enough - 1, 1) else np.zeros(len(landed), bool)


def closing(meetings: Mapping[int, ArrivalGroup], now: float) -> float:
    """The next moment at which a meeting's time is up."""
    return min((each.latest for each in meetings.values() if each.latest > now), default=np.inf)


def still_on(
    landed: Array, meets: Mapping[int, int], meetings: Mapping[int, ArrivalGroup], now: float
) -> dict[int, ArrivalGroup]:
    """Meetings whose time is not up, or where somebody has come."""
    here = set(places(landed, meets).tolist())
    return {name: each for name, each in meetings.items() if each.latest > now or name in here}
