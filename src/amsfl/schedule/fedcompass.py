"""FedCompass's scheduler: steps by which clients of different speeds arrive together."""

import math
from collections.abc import Mapping
from typing import NamedTuple


class ArrivalGroup(NamedTuple):
    """A group of clients that are to arrive at one time."""

    expected: float  # when its clients are to be there
    latest: float  # and when nobody waits for them any more
    turn: float  # seconds that its fastest client takes for as many steps as it may take


class ClientSpeed(NamedTuple):
    """Who is to be sent off: c t + b seconds for t steps, of which it takes between `least` and `most`."""

    step_seconds: float
    comm_seconds: float
    least: int
    most: int

    def seconds(self, steps: int) -> float:
        return self.step_seconds * steps + self.comm_seconds

    def within(self, seconds: float) -> int:
        """The steps that it can take in so many seconds; binary fractions do not cost one."""
        return math.floor((seconds - self.comm_seconds) / self.step_seconds * (1 + 1e-12) + 1e-9)


def assign(client: ClientSpeed, now: float, meetings: Mapping[int, ArrivalGroup]) -> tuple[int, int | None]:
    """Steps for a client that starts now, and the group that it meets with them; None: one of its own.

    It joins the group that lets it take the most steps, the last made where several do. Where none does, it
    takes the steps after which the fastest of another group, sent off with all steps that it may take when
    that one is waited for no longer, would be back as well, so that they can meet then; no fewer than the
    least. Where there is no such number, since it is too fast for all of them: all it may.
    Li et al. 2024, arXiv 2309.14675, Algorithm 1; as in the authors' code (APPFL, its CompassScheduler),
    but that their speed is all seconds of a round by its steps, smoothed, and ours has the link apart.
    """
    joined = [(client.within(each.expected - now), name) for name, each in meetings.items()]
    fits = [(steps, name) for steps, name in joined if client.least <= steps <= client.most]
    if fits:
        return max(reversed(fits), key=lambda fit: fit[0])
    later = [client.within(m.latest + m.turn - now) for m in meetings.values() if m.latest > now]
    best = max((steps for steps in later if steps <= client.most), default=client.most)
    return max(best, client.least), None
