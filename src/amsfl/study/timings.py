"""What a record says of time: how long each client's rounds took, who failed, who was not there.

A real run's seconds are the server's own, from an order to its reply, and a client's word on one step; a
simulated one's are virtual. Everything is on one axis: seconds since the run began, what the server does
between two rounds included.
"""

import bisect
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.record import RoundRecord, RunRecord, read_run
from amsfl.record.timeline import GONE, absent, busy_times, spans
from amsfl.settings.parse import refuse_recorded_code
from amsfl.settings.round_ends import round_end_on_record

LATE = "late"  # how the reasons begin of those who were slow
FEWEST = 3  # rounds that say anything


class ClientRound(NamedTuple):
    """One client's round."""

    round: int
    client: int
    gradients: int  # its steps, and one more where a reading was taken
    seconds: float
    step: float  # seconds of one


class RunTimings(NamedTuple):
    names: tuple[str, ...]
    trips: list[ClientRound]
    moves: list[float]  # when the server had made each model, and done whatever else it does in a round
    lags: list[float] | None  # from an event to what was sent then; None: rounds wait for all
    tried: list[list[int]]  # of each round: clients whose work came, or came to nothing
    failed: list[list[int]]
    away: list[list[int]]  # of each round: clients that could not be asked
    weights: list[float] | None  # shares of the data, where only the clients know them

    @property
    def clients(self) -> int:
        return len(self.names)


def timings_in(folder: Path) -> RunTimings:
    run = read_run(folder)
    if len(run.rounds) < FEWEST:
        raise UserError(
            f"The record {str(folder)!r} has {len(run.rounds)} rounds; to calibrate by, give one with at "
            f"least {FEWEST}."
        )
    return timings_of(run)


def timings_of(run: RunRecord) -> RunTimings:
    """What of a record is about time."""
    real, settings = run.manifest.kind == "flower", run.settings
    clients = int(run.manifest.made_from["clients"])
    names = tuple(run.manifest.about["clients"]["names"]) or tuple(map(str, range(clients)))
    speeds = run.manifest.about["clients"].get("step_seconds")
    diagnostic = not real and bool(settings.get("readings"))  # in a simulation those are free
    refuse_recorded_code({"round_end": settings.get("round_end")})
    apart = any(each.started for each in run.rounds) and not round_end_on_record(settings).waits_for_all
    failed = [_failed(each, real) for each in run.rounds]
    return RunTimings(
        names,
        [trip for each in run.rounds for trip in _trips(each, speeds, diagnostic)],
        [each.wall["elapsed"] if real else each.seconds["makespan"] for each in run.rounds],
        _lags(run.rounds) if apart and real else [0.0 for _ in run.rounds] if apart else None,
        [[*each.cohort, *lost] for each, lost in zip(run.rounds, failed, strict=True)],
        failed,
        _away(run.rounds, clients if settings.get("cohort") in (None, clients) else 0),
        _weights(run.rounds, clients) if settings.get("data") == "own" else None,
    )


def _lags(rounds: Sequence[RoundRecord]) -> list[float]:
    """How long after the last move or arrival before them the round's clients were sent off: the server's own
    time, which is part of nobody's trip."""
    moved = [0.0, *(each.seconds["makespan"] for each in rounds)]
    happened = sorted(moved + [came for each in rounds for came in each.arrived])

    def since(began: float) -> float:
        return began - happened[max(bisect.bisect_left(happened, began) - 1, 0)]

    return [float(np.median([since(began) for began in each.started])) for each in rounds]


def _trips(each: RoundRecord, speeds: Sequence[float] | None, diagnostic: bool) -> list[ClientRound]:
    more = int(bool(each.readings) and not diagnostic)
    took, steps = each.plan.get("client_seconds"), each.plan.get("step_seconds")
    if steps is None and speeds is not None:
        steps = [speeds[who] for who in each.cohort]
    if took is None or steps is None:
        raise UserError(
            "This record does not say how long clients took; give one that 'amsfl run' or a Flower server of "
            "this version wrote."
        )
    rows = zip(each.cohort, each.steps, took, steps, strict=True)
    return [ClientRound(each.round, who, count + more, float(s), float(c)) for who, count, s, c in rows]


def _failed(each: RoundRecord, real: bool) -> list[int]:
    """Whose work came to nothing: not for being late, nor for being away."""
    if not real:  # who was merely late was dropped when the server moved, at that very moment
        return [int(who) for who, _, to in each.dropped if to < each.seconds["makespan"]]
    items = each.plan.get("refused", [])
    mine = [item for item in items if not item["reason"].startswith((LATE, GONE))]
    return [int(item["client"]) for item in mine if item["client"] is not None]


def _away(rounds: Sequence[RoundRecord], clients: int) -> list[list[int]]:
    """Of each round: who was not there, as far as that can be told (record/timeline.py)."""
    busy = busy_times(spans([each for each in rounds if each.started], 0))
    return [sorted(absent(each, clients, busy)) for each in rounds]


def _weights(rounds: Sequence[RoundRecord], clients: int) -> list[float] | None:
    """Shares as the plans had them; only rounds with everybody in tell how all compare."""
    whole = [each for each in rounds if len(each.cohort) == clients == len(each.plan.get("weights", ()))]
    if not whole:
        return None
    last = whole[-1]
    shares = np.array(last.plan["weights"], float)[np.argsort(last.cohort)]
    return [float(share) for share in shares / shares.sum()]
