"""What a record says of time: how long each client's rounds took, who failed, who was not there.

A real run's seconds are the server's own, from an order to its reply, and a client's word on one step; a
simulated one's are virtual. Everything is on one axis: seconds since the run began, what the server does
between two rounds included.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.record import RoundRecord, RunRecord, read_run
from amsfl.settings.checks import round_end_on_record
from amsfl.settings.parse import refuse_recorded_code

# how the reasons begin of real clients that left or could not be reached, and of those who were slow:
# of one that was not waited for any longer, and when its reply came at last
GONE, LATE, GIVEN_UP, AT_LAST = "gone", "late", "late: ", "late reply"
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
        return began - happened[max(bisect_left(happened, began) - 1, 0)]

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
    """Of each round: who had left, or was neither asked nor at work where everybody would have been asked."""
    work = _at_work([each for each in rounds if each.started])
    overlapping = any(any(each.staleness) for each in rounds)
    away = []
    for each in rounds:
        closed = each.seconds["makespan"]
        opened = closed - each.round_seconds.get("makespan", 0.0)
        asked = {*each.cohort, *each.plan.get("planned", {}).get("cohort", []), *_refused(each)}
        idle = set[int]()
        for who in {*range(clients)} - asked:
            begins, latest_ends = work.get(who, ([], []))
            before = bisect_left(begins, closed)
            returns = before < len(begins) or not overlapping  # who never does may be at work to the end
            if returns and not (before and latest_ends[before - 1] > opened):
                idle.add(who)
        away.append(sorted(_refused(each, GONE) | idle))
    return away


def _at_work(rounds: Sequence[RoundRecord]) -> dict[int, tuple[list[float], list[float]]]:
    """By client: when its work began, rising, and the latest end of what had begun by then."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for each in rounds:
        for who, begin, end in [*zip(each.cohort, each.started, each.arrived, strict=True), *each.dropped]:
            spans.setdefault(int(who), []).append((begin, end))
    begins = {who: sorted(begin for begin, _ in mine) for who, mine in spans.items()}
    for place, each in enumerate(rounds):  # nobody can stop a real client: it works on till its reply is in
        close = each.seconds["makespan"]
        for who in _refused(each, GIVEN_UP):
            came = (later for later in rounds[place + 1 :] if who in _refused(later, AT_LAST))
            asked_again = [begin for begin in begins.get(who, []) if begin >= close][:1]
            end = min([next(came, rounds[-1]).seconds["makespan"], *asked_again])
            spans.setdefault(who, []).append((close, end))
    columns = {who: zip(*sorted(mine), strict=True) for who, mine in spans.items()}
    return {who: (list(starts), list(accumulate(ends, max))) for who, (starts, ends) in columns.items()}


def _refused(each: RoundRecord, why: str = "") -> set[int]:
    """Real clients that were refused in this round for a reason that begins so."""
    items = each.plan.get("refused", [])
    return {int(i["client"]) for i in items if i["client"] is not None and i["reason"].startswith(why)}


def _weights(rounds: Sequence[RoundRecord], clients: int) -> list[float] | None:
    """Shares as the plans had them; only rounds with everybody in tell how all compare."""
    whole = [each for each in rounds if len(each.cohort) == clients == len(each.plan.get("weights", ()))]
    if not whole:
        return None
    last = whole[-1]
    shares = np.array(last.plan["weights"], float)[np.argsort(last.cohort)]
    return [float(share) for share in shares / shares.sum()]
