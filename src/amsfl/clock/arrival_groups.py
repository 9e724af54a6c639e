"""FedCompass: clients of different speeds get the steps by which groups of them arrive together."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple


class ArrivalGroup(NamedTuple):
    """Clients that are planned to arrive at one time."""

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


class Assignment(NamedTuple):
    """How many steps a client takes, and the group it arrives with."""

    steps: int
    group: int | None = None  # None: a new group
    waited_for: bool = True  # False: no group; its result is taken when it arrives


Join = Callable[[Starter, float, Mapping[int, ArrivalGroup]], Assignment]


def fedcompass(share: float) -> Join:
    """Li et al. 2024, arXiv 2309.14675, Algorithm 1, as in the authors' code (APPFL, its CompassScheduler).

    A client joins the group that lets it take the most steps, the newest where several do. Where it fits
    none, it opens a group: it takes the steps after which the fastest client of an existing group, started
    again with all its steps at that group's latest time, would be back as well, so that both can meet then.
    If it is too fast for that, it takes all its steps. A client's first round has the fewest steps, and
    nobody waits for it. Their speed is a round's seconds over its steps, smoothed; ours has the link apart.
    """

    def join(client: Starter, now: float, groups: Mapping[int, ArrivalGroup]) -> Assignment:
        least = max(1, round(share * client.most))
        if client.first:
            return Assignment(least, waited_for=False)
        joined = [(client.within(each.due - now), name) for name, each in groups.items()]
        fits = [(steps, name) for steps, name in joined if least <= steps <= client.most]
        if fits:
            return Assignment(*max(reversed(fits), key=lambda fit: fit[0]))
        later = [
            client.within(each.latest + each.turn - now)
            for each in groups.values()
            if each.latest is not None and each.latest > now
        ]
        best = max((steps for steps in later if steps <= client.most), default=client.most)
        return Assignment(max(best, least))

    return join
