"""When clients are there: a trace, chains of on and off, day and night. Pure functions of seed and time.

`window(client, t)` is the stretch of presence at t, or the next one: (begin, end) with end > t. What lies in
the past can be asked for again, so a resumed run sees the same comings and goings.
"""

import bisect
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from amsfl import sampling
from amsfl.clock.sites import Floats, cells
from amsfl.core import UserError, nearest

Stretch = tuple[float, float]
Window = Callable[[int, float], Stretch]

KINDS = ("always", "chain", "day")
CHAIN, PHASE = 0xA1, 0xA2  # streams of their own
BLOCK = 16  # times drawn at once
MOST_TURNS = 100_000  # comings and goings between two questions: a second of work


def presence(spec: str, clients: int, seed: int, names: Sequence[str] = ()) -> Window | None:
    """`always` (None), `chain:ON,OFF` mean seconds, `day:PERIOD,SHARE`, or a trace, FILE.csv."""
    kind, _, argument = spec.partition(":")
    if spec == "always":
        return None
    if spec.endswith(".csv"):
        return trace(Path(spec), clients, names)
    if kind not in ("chain", "day"):
        raise UserError(f"Unknown availability {spec!r}{nearest(kind, [*KINDS, 'FILE.csv'])}.")
    try:
        first, second = (float(part) for part in argument.split(","))
    except ValueError:
        first = second = math.nan
    if kind == "chain":
        if not (0 < first <= 1e9 and 0 <= second <= 1e9):
            raise UserError(f"Availability {spec!r}: write mean seconds on and off, as in chain:600,60.")
        return chain(np.full(clients, first), np.full(clients, second), seed)
    if not (0 < first <= 1e9 and 0 < second <= 1):
        raise UserError(f"Availability {spec!r}: write a period and the share of it, as in day:86400,0.6.")
    return day(first, second, seed)


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
        last = place + MOST_TURNS
        while True:
            if place > last:
                raise UserError(
                    f"Client {client} comes and goes over {MOST_TURNS:,} times between two looks (on for "
                    f"{mean_on:g} s, off for {mean_off:g} s on average); give --availability longer times."
                )
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


def day(period: float, share: float, seed: int) -> Window:
    """On for a share of every period; each client's day begins at a time of its own."""

    def window(client: int, t: float) -> Stretch:
        phase = period * float(_draws(seed, PHASE, client, 0)[0])
        begin = math.floor((t - phase) / period) * period + phase
        if begin + share * period <= t:
            begin += period
        return (0.0, math.inf) if share == 1 else (begin, begin + share * period)

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
        try:
            begin, end = float(row["from"] or ""), float(row["to"] or "")
        except ValueError:
            begin = end = math.nan
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
