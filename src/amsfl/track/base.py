"""A tracker opens a run and returns two callbacks. All trackers get the same numbers.

A tracker that fails does not stop the run: it is reported once and not called again.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from amsfl.core import Remark, UserError
from amsfl.core.records import Json
from amsfl.record import RoundRecord, Summary

T = TypeVar("T")


class RunInfo(NamedTuple):
    """What a tracker knows of a run before its first round."""

    title: str  # as in digits-amsfl-0
    settings: Json
    clock: str
    out: Path | None = None  # the folder of its record


class RunCallbacks(NamedTuple):
    """The two callbacks of one run; `on_end` gets None if the run was stopped."""

    on_round: Callable[[RoundRecord], None]
    on_end: Callable[[Summary | None], None]


class Tracker(NamedTuple):
    """`begin(info)` opens a run and returns its callbacks."""

    name: str
    begin: Callable[[RunInfo], RunCallbacks]


def numbers(record: RoundRecord, clock: str) -> dict[str, float]:
    """The numbers of a round that trackers get: scores, times, steps and costs.

    Args:
        record: Of the round.
        clock: sum or makespan.

    Returns:
        Numbers by name.
    """
    values = dict(record.scores)
    values["time/virtual_seconds"] = record.seconds[clock]
    if "elapsed" in record.wall:
        values["time/elapsed_seconds"] = record.wall["elapsed"]
    if record.lr is not None:
        values["plan/lr"] = record.lr
    if record.steps:
        mean = sum(record.steps) / len(record.steps)
        values |= {"plan/steps_mean": mean, "plan/steps_most": float(max(record.steps))}
        values |= {"plan/steps_least": float(min(record.steps)), "plan/clients": float(len(record.steps))}
    values["cost/megabytes"] = (record.bytes_up + record.bytes_down) / 1e6
    spent = {"cost/joules": record.joules, "cost/money": record.cost}
    values |= {name: value for name, value in spent.items() if value is not None}
    if record.plan.get("refused"):
        values["cost/refused"] = float(len(record.plan["refused"]))
    return values


@contextmanager
def tracking(trackers: Sequence[Tracker], info: RunInfo) -> Iterator[RunCallbacks]:
    """Open all trackers and close them at the end, also when the run is stopped.

    Args:
        trackers: To open.
        info: About the run.

    Yields:
        The callbacks of all trackers as one.
    """
    opened = [each for tracker in trackers if (each := _open(tracker, info)) is not None]

    def on_round(record: RoundRecord) -> None:
        for each in opened:
            each.on_round(record)

    def on_end(summary: Summary | None) -> None:
        while opened:  # once
            opened.pop(0).on_end(summary)

    try:
        yield RunCallbacks(on_round, on_end)
    finally:
        on_end(None)


def _open(tracker: Tracker, info: RunInfo) -> RunCallbacks | None:
    """Callbacks that never raise: the first exception is reported, and the tracker is not called again."""
    broken = False

    def report(trouble: Exception) -> None:
        nonlocal broken
        broken = True
        what = f"{type(trouble).__name__}: {trouble}".splitlines()[0][:300]
        warnings.warn(
            f"The tracker {tracker.name} failed ({what}); the run goes on without it.", Remark, stacklevel=4
        )

    def guarded(callback: Callable[[T], None]) -> Callable[[T], None]:
        def called(value: T) -> None:
            if not broken:
                try:
                    callback(value)
                except Exception as trouble:  # other people's code, and servers that may be down
                    report(trouble)

        return called

    try:
        callbacks = tracker.begin(info)
        return RunCallbacks(guarded(callbacks.on_round), guarded(callbacks.on_end))
    except UserError:
        raise  # a missing package: nothing is trained yet
    except Exception as trouble:
        report(trouble)
        return None
