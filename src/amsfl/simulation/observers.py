"""Who hears of a run's rounds: the caller's own callback, a notebook's line, trackers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from amsfl.record import RoundRecord, Summary
from amsfl.settings.definitions import Training
from amsfl.simulation import progress
from amsfl.track import RunInfo, TrackerSpec, make, tracking

Watch = Callable[[RoundRecord], None]


class Observers(NamedTuple):
    """Who hears of every round, one after another, and what hears of the end."""

    on_round: Sequence[Watch]
    on_end: Callable[[Summary | None], None]


def run_info(config: Training, out: Path | None = None, among: str = "") -> RunInfo:
    """What trackers know of a run; `among` is added to the title where there are several runs."""
    words = [Path(config.data).stem[:60], config.method[:60], str(config.seed), among]
    return RunInfo("-".join(filter(None, words)), config.model_dump(), config.clock, out)


@contextmanager
def observers(
    config: Training,
    watch: Watch | None = None,
    track: TrackerSpec = None,
    wants_line: bool | None = False,
    out: Path | None = None,
) -> Iterator[Observers]:
    """All of a run's; the caller's own callback comes last, it may stop the run."""
    with ExitStack() as stack:
        show = stack.enter_context(progress.line(wants_line))
        chosen = make(track)
        trackers = stack.enter_context(tracking(chosen, run_info(config, out)))
        listeners: list[Watch] = [trackers.on_round] if chosen else []
        if show:
            listeners.append(
                lambda record: show(progress.share(record, config), progress.describe(record, config))
            )
        if watch:
            listeners.append(watch)
        yield Observers(listeners, trackers.on_end)
