"""What happens to a client's round between its start and its end: jitter, absence, failure. All by seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from amsfl import sampling
from amsfl.clock.availability import Window, chain, presence
from amsfl.clock.profile import Profile
from amsfl.clock.sites import Floats
from amsfl.core import UserError

Array = np.ndarray[Any, np.dtype[Any]]
SPELLS = 100_000  # of being there, in which a round must be done
ROUND = 0xB0  # the stream of a round's luck


@dataclass(frozen=True)
class ClientConditions:
    """One entry per client; None where nothing of the kind happens."""

    jitter: Floats | None = None  # sigma of lognormal factors, on the steps' seconds and on the link's
    failure: Floats | None = None  # chance that a round comes to nothing
    window: Window | None = None  # when clients are there

    def begin(self, client: int, now: float) -> float:
        """The moment from `now` on at which a client can start."""
        return now if self.window is None else max(now, self.window(client, now)[0])

    def trips(
        self, seed: int, clients: Array, numbers: Array, started: Array, work: Floats, link: Floats
    ) -> tuple[Floats, Array]:
        """When each client is back, and whether its round failed; `work` and `link`: seconds without jitter.

        A client that is away stands still and goes on when it is back. One that fails does so somewhere on
        the way.
        """
        luck = _luck(seed, clients, numbers)
        seconds = work + link
        if self.jitter is not None:
            sigma = self.jitter[clients]
            seconds = work * np.exp(sigma * luck[0]) + link * np.exp(sigma * luck[1])
        lost = np.zeros(len(clients), bool)
        if self.failure is not None:
            lost = luck[2] < self.failure[clients]
            seconds = np.where(lost, seconds * luck[3], seconds)
        if self.window is None:
            return started + seconds, lost
        back = [
            self._through(*each) for each in zip(clients.tolist(), started.tolist(), seconds, strict=True)
        ]
        return np.array(back), lost

    def _through(self, client: int, t: float, seconds: float) -> float:
        """The end of so many seconds of presence."""
        assert self.window is not None
        wanted = float(seconds)
        for _ in range(SPELLS):
            begin, end = self.window(client, t)
            t = max(t, begin)
            if t + seconds <= end:
                return t + float(seconds)
            seconds -= end - t
            t = end
        raise UserError(
            f"Client {client} has {wanted:.3g} seconds of work and did {wanted - seconds:.3g} of them in "
            f"{SPELLS:,} spells of being there; let clients be there for longer at a time."
        )


def client_conditions(
    profile: Profile, seed: int, availability: str, jitter: float, failure: float, names: Sequence[str] = ()
) -> ClientConditions | None:
    """What the settings say for all clients, or the profile's table for each; None: nothing happens."""
    table = {} if profile.sites is None else profile.sites.columns

    def column(name: str, everyone: float) -> Floats | None:
        own = table.get(name)
        if own is not None and everyone:
            raise UserError(
                f"Setting {name!r} is {everyone:g}, and {profile.name} has a column for it; leave one out."
            )
        values = np.full(profile.clients, everyone) if own is None else own
        return values if values.any() else None

    on, off = table.get("on_seconds"), table.get("off_seconds")
    if (on is None) != (off is None):
        raise UserError(f"{profile.name} has one of the columns 'on_seconds' and 'off_seconds'; give both.")
    if on is not None and off is not None:
        if availability != "always":
            raise UserError(f"{profile.name} says when clients are there; leave --availability out.")
        window: Window | None = chain(on, off, seed)
    else:
        window = presence(availability, profile.clients, seed, names)
    parts = column("jitter", jitter), column("failure", failure), window
    return None if all(part is None for part in parts) else ClientConditions(*parts)


def _luck(seed: int, clients: Array, numbers: Array) -> tuple[Floats, Floats, Floats, Floats]:
    """Two normal and two uniform numbers for each round; Box and Muller's for the first two."""
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (seed ^ ROUND << 20, numbers, clients)))
        u = [sampling.uniform(key, np.uint32(place)).astype(float) for place in range(4)]
    radius = np.sqrt(-2 * np.log1p(-u[0]))
    return radius * np.cos(2 * math.pi * u[1]), radius * np.sin(2 * math.pi * u[1]), u[2], u[3]
