"""What a tracker is: two callbacks, opened once a run. What goes to it is the same for all of them.

A tracker that fails must not lose the run: that is said once, and the run goes on without it.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.core import Remark, UserError
from amsfl.record import RoundRecord, Summary


class Begun(NamedTuple):
    """What a tracker is told of a run before its first round."""

    title: str  # as in digits-amsfl-0
    settings: dict[str, Any]
    clock: str
    out: Path | None = None  # the folder of its record


class Told(NamedTuple):
    """The two callbacks of one run; the end is told without a summary if the run was stopped."""

    on_round: Callable[[RoundRecord], None]
    on_end: Callable[[Summary | None], None]


class Tracker(NamedTuple):
    """`Tracker("mine", begin)` where `begin(begun)` opens a run and returns its `Told`."""

    name: str
    begin: Callable[[Begun], Told]


def numbers(record: RoundRecord, clock: str) -> dict[str, float]:
    """A round as trackers take it: every score, when it was, what it took.

    Args:
        record: Of the round.
        clock: Whose seconds count.

    Returns:
        Numbers by name.
    """
    found = dict(record.scores)
    found["time/virtual_seconds"] = record.seconds[clock]
    if "elapsed" in record.wall:
        found["time/elapsed_seconds"] = record.wall["elapsed"]
    if record.lr is not None:
        found["plan/lr"] = record.lr
    if record.steps:
        mean = sum(record.steps) / len(record.steps)
        found |= {"plan/steps_mean": mean, "plan/steps_most": float(max(record.steps))}
        found |= {"plan/steps_least": float(min(record.steps)), "plan/clients": float(len(record.steps))}
    found["cost/megabytes"] = (record.bytes_up + record.bytes_down) / 1e6
    spent = {"cost/joules": record.joules, "cost/money": record.cost}
    found |= {name: value for name, value in spent.items() if value is not None}
    if record.plan.get("refused"):
        found["cost/refused"] = float(len(record.plan["refused"]))
    return found


@contextmanager
def tracking(trackers: Sequence[Tracker], begun: Begun) -> Iterator[Told]:
    """All of them as one, opened and closed; a stopped run is closed, too.

    Args:
        trackers: To tell.
        begun: What begins.

    Yields:
        What to tell rounds and the end to.
    """
    open_ones = [told for each in trackers if (told := _opened(each, begun)) is not None]
    ended = False

    def on_round(record: RoundRecord) -> None:
        for told in open_ones:
            told.on_round(record)

    def on_end(summary: Summary | None) -> None:
        nonlocal ended
        if not ended:
            ended = True
            for told in open_ones:
                told.on_end(summary)

    try:
        yield Told(on_round, on_end)
    finally:
        on_end(None)


def _opened(tracker: Tracker, begun: Begun) -> Told | None:
    """Open, and whatever it raises later is said once; then it is left alone."""
    broken = False

    def said(trouble: Exception) -> None:
        nonlocal broken
        broken = True
        what = f"{type(trouble).__name__}: {trouble}".splitlines()[0][:300]
        warnings.warn(
            f"The tracker {tracker.name} failed ({what}); the run goes on without it.", Remark, stacklevel=4
        )

    def guarded(callback: Callable[[Any], None]) -> Callable[[Any], None]:
        def called(value: Any) -> None:
            if not broken:
                try:
                    callback(value)
                except Exception as trouble:  # other people's code, and servers that may be down
                    said(trouble)

        return called

    try:
        told = tracker.begin(begun)
        return Told(guarded(told.on_round), guarded(told.on_end))
    except UserError:
        raise  # a package that is not there is said before anything is trained
    except Exception as trouble:
        said(trouble)
        return None
