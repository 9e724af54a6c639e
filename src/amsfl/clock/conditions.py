"""What happens to a client's round between its start and its end: jitter, failure, absence. All by seed.

Presence is a pure function of seed and time: `window(client, t)` is the stretch of presence at t, or the next
one, (begin, end) with end > t. What lies in the past can be asked for again, so a resumed run sees the same.
"""

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amsfl import sampling
from amsfl.clock.profile import Floats, Profile, cells, two_numbers
from amsfl.core import UserError, nearest

Array = np.ndarray[Any, np.dtype[Any]]
ROUND = 0xB0  # the stream of a round's luck
Stretch = tuple[float, float]
Window = Callable[[int, float], Stretch]

CHAIN = 0xA1  # a stream of its own
BLOCK = 16  # times drawn at once


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
        while True:
            begin, end = self.window(client, t)
            t = max(t, begin)
            if t + seconds <= end:
                return t + float(seconds)
            seconds -= end - t
            t = end


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


def presence(spec: str, clients: int, seed: int, names: Sequence[str] = ()) -> Window | None:
    """`always` (None), `chain:ON,OFF` mean seconds, or a trace, FILE.csv."""
    kind, _, argument = spec.partition(":")
    if spec == "always":
        return None
    if spec.endswith(".csv"):
        return trace(Path(spec), clients, names)
    if kind != "chain":
        raise UserError(f"Unknown availability {spec!r}{nearest(kind, ['always', 'chain', 'FILE.csv'])}.")
    on, off = two_numbers(argument)
    if not (0 < on <= 1e9 and 0 <= off <= 1e9):
        raise UserError(f"Availability {spec!r}: write mean seconds on and off, as in chain:600,60.")
    return chain(np.full(clients, on), np.full(clients, off), seed)


def chain(on: Floats, off: Floats, seed: int) -> Window:
    """Exponential times on and off in turns. Whether a client begins on is drawn by its share of the time."""
    walks: dict[int, tuple[int, float, bool]] = {}  # a cache: where each client's walk stands

    def window(client: int, t: float) -> Stretch:
        mean_on, mean_off = float(on[client]), float(off[client])
        if mean_off == 0:
            return 0.0, math.inf
        place, begin, here = walks.get(client, (0, math.inf, True))
        if begin > t:  # the first question, or one about the past
            place, begin, here = 0, 0.0, _draws(seed, CHAIN, client, 0)[0] < mean_on / (mean_on + mean_off)
        lengths, block = _draws(seed, CHAIN, client, 1 + place // BLOCK), place // BLOCK
        while True:
            if place // BLOCK != block:
                block = place // BLOCK
                lengths = _draws(seed, CHAIN, client, 1 + block)
            length = -math.log1p(-float(lengths[place % BLOCK])) * (mean_on if here else mean_off)
            end = begin + length
            if end > t and here:
                walks[client] = (place, begin, here)
                return begin, end
            place, begin, here = place + 1, end, not here

    return window


def trace(path: Path, clients: int, names: Sequence[str]) -> Window:
    """Lines client, from, to in seconds; the whole trace repeats after its last `to`."""
    known = {name: place for place, name in enumerate(names)} or {str(n): n for n in range(clients)}
    rows: dict[int, list[Stretch]] = {}
    header, lines = cells(path, "a CSV with client, from, to")
    if sorted(header) != ["client", "from", "to"] or not lines:
        raise UserError(f"{path} needs the columns client, from, to and a line a stretch of presence.")
    for line, row in lines:
        name = (row["client"] or "").strip()
        if name not in known:
            raise UserError(f"{path}, line {line}: no client is called {name!r}{nearest(name, known)}.")
        begin, end = two_numbers(f"{row['from']},{row['to']}")
        if not 0 <= begin < end <= 1e12:
            raise UserError(f"{path}, line {line}: from and to are seconds, from 0 up and from below to.")
        rows.setdefault(known[name], []).append((begin, end))
    missing = next((name for name, place in known.items() if place not in rows), None)
    if missing is not None:
        raise UserError(
            f"{path}: client {missing!r} is never there; give it a line, or leave the client out."
        )
    stretches = {who: _merged(sorted(parts)) for who, parts in rows.items()}
    period = max(parts[-1][1] for parts in stretches.values())

    def window(client: int, t: float) -> Stretch:
        mine, turn = stretches[client], math.floor(t / period)
        within = t - turn * period
        place = bisect.bisect_right([end for _, end in mine], within)
        if place == len(mine):
            turn, place = turn + 1, 0
        begin, end = mine[place]
        return turn * period + begin, turn * period + end

    return window


def _merged(parts: list[Stretch]) -> list[Stretch]:
    """Stretches that touch or overlap as one."""
    merged = parts[:1]
    for begin, end in parts[1:]:
        if begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _draws(seed: int, stream: int, client: int, block: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """BLOCK numbers in [0, 1) of a client's own."""
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (seed ^ stream << 20, block, client)))
        return np.asarray(sampling.uniform(key, np.arange(BLOCK, dtype=np.uint32)))
