"""What stands beside a run's rounds: the caller's own callback, a notebook's line, trackers, and Ctrl-C."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from amsfl.core.scores import shown_score
from amsfl.data.files import source_name
from amsfl.record import RoundRecord, Summary
from amsfl.settings.definitions import Training
from amsfl.track import RunInfo, TrackerSpec, trackers_of, tracking

BAR = 20  # letters

Watch = Callable[[RoundRecord], None]


@contextmanager
def observers(
    config: Training,
    watch: Watch | None = None,
    track: TrackerSpec = None,
    wants_line: bool | None = False,
    out: Path | None = None,
) -> Iterator[tuple[list[Watch], Callable[[Summary | None], None]]]:
    """All of a run's; the caller's own callback comes last, it may stop the run."""
    with ExitStack() as stack:
        show = stack.enter_context(line(wants_line))
        chosen, named = trackers_of(track), (source_name(config.data), config.method, str(config.seed))
        title = "-".join(part[:60] for part in named)
        info = RunInfo(title, config.model_dump(), config.clock, out)
        trackers = stack.enter_context(tracking(chosen, info))
        listeners: list[Watch] = [trackers.on_round] if chosen else []
        if show:
            listeners.append(lambda record: show(*progress(record, config)))
        if watch:
            listeners.append(watch)
        yield listeners, trackers.on_end


def in_notebook() -> bool:
    """Whether a Jupyter kernel shows what we print; IPython is not imported to find out."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


@contextmanager
def line(wanted: bool | None = None) -> Iterator[Callable[[float, str], None] | None]:
    """`show(share, text)` that rewrites one line of a notebook; None outside of one, or if not wanted.

    Plain text by IPython's own display: it needs no widgets, and a saved notebook keeps the last line.
    """
    if wanted is False or not in_notebook():
        yield None
        return
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    def shown(share: float, text: str) -> dict[str, str]:
        full = round(BAR * min(1.0, max(0.0, share)))
        return {"text/plain": f"{'█' * full}{'░' * (BAR - full)} {text}"}

    handle: Any = display(  # type: ignore[no-untyped-call,unused-ignore]
        shown(0.0, "compiling"), raw=True, display_id=True
    )
    yield lambda share, text: handle.update(shown(share, text), raw=True)


def progress(record: RoundRecord, config: Training) -> tuple[float, str]:
    """How much of a run is done, by the limit that it is nearest to, and its round in a few words."""
    seconds, metrics = record.seconds[config.clock], record.metrics.get("holdout", {})
    done, text = record.round / config.last_round, f"round {record.round}, {seconds:.1f} s"
    if config.seconds:
        done = max(done, seconds / config.seconds)
    score = shown_score(config.score, metrics)
    value = score.of(metrics) if score else None
    if score is None or value is None:
        return done, text
    if config.target and config.stop_at_target and score.larger:
        done = max(done, value / config.target)
    return done, f"{text}, {score.title} {value:.4g}"


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """`with stoppable() as stop:` around a loop that looks at `stop.is_set()` after every round.

    The first Ctrl-C asks the run to stop, a second one stops it at once. Raised wherever it arrives, a
    KeyboardInterrupt can get lost in a callback of jax's, or abort in the middle of a round.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's business
        yield stop
        return

    def note(_: int, __: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(OSError):  # not print: the loop may be in the middle of one
            os.write(2, b"\namsfl: stopping after this round; once more stops at once.\n")

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # a process in the background is none of Ctrl-C's business
        signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
