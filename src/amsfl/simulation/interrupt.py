"""Ctrl-C between rounds: the first one asks the run to stop, a second one stops it at once.

Raised wherever it arrives, a KeyboardInterrupt can get lost in a callback of jax's, or abort in the middle
of a round.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """`with stoppable() as stop:` around a loop that looks at `stop.is_set()` after every round."""
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
