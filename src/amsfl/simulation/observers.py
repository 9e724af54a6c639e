"""Who hears of a run's rounds: the caller's own callback, a notebook's line, trackers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from amsfl.record import RoundRecord
from amsfl.settings.definitions import Training
from amsfl.simulation import progress
from amsfl.track import RunCallbacks, RunInfo, TrackerSpec, make, tracking

Watch = Callable[[RoundRecord], None]


def run_info(config: Training, out: Path | None = None, among: str = "") -> RunInfo:
    """What trackers know of a run; `among` is added to the title where there are several runs."""
    words = [Path(config.data).stem[:60], config.method[:60], str(config.seed), among]
    return RunInfo("-".join(filter(None, words)), config.model_dump(), config.clock, out)


@contextmanager
def callbacks(
    config: Training,
    watch: Watch | None = None,
    track: TrackerSpec = None,
    wants_line: bool | None = False,
    out: Path | None = None,
) -> Iterator[RunCallbacks]:
    """One `on_round` and one `on_end` for all; the caller's own callback comes last, it may stop the run."""
    with ExitStack() as stack:
        show = stack.enter_context(progress.line(wants_line))
        trackers = stack.enter_context(tracking(make(track), run_info(config, out)))
        listeners: list[Watch] = [trackers.on_round]
        if show:
            listeners.append(
                lambda record: show(progress.share(record, config), progress.describe(record, config))
            )
        if watch:
            listeners.append(watch)

        def on_round(record: RoundRecord) -> None:
            for listener in listeners:
                listener(record)

        yield RunCallbacks(on_round, trackers.on_end)
