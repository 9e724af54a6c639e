"""One writer a folder: a lock of the system's, which is free again when its holder dies, however it dies.

The lock's file says who holds it. That text is for people; what a dead process left behind is no obstacle.
"""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from amsfl.core import UserError
from amsfl.record import disk

LOCK = ".amsfl-lock"
PREFIX = "amsfl: "
PATIENCE = 100  # looks at a lock that says nothing yet, a hundredth of a second apart


class Busy(UserError):
    """Somebody else writes there now."""


class Lock:
    """Held from its making, which makes the folder too, until `release`, or until the process is gone."""

    def __init__(self, folder: Path, name: str = LOCK):
        disk.make_folder(folder)
        self.path = folder / name
        if disk.exists(self.path) and self.path.stat().st_size and not _text(self.path).startswith(PREFIX):
            raise UserError(f"{str(self.path)!r} is not a lock of amsfl's; move it away.")
        self.lock = FileLock(self.path, timeout=0, thread_local=False)
        with disk.explain_errors("locked", self.path):
            try:
                self.lock.acquire()
            except Timeout:
                raise Busy(
                    f"The folder {str(folder)!r} is being written by {holder_text(self.path)}; wait until "
                    "that ends, or choose another folder."
                ) from None
            started = time.strftime("%Y-%m-%d %H:%M:%S")
            text = f"{PREFIX}process {os.getpid()} on {socket.gethostname()} since {started}\n"
            self.path.write_text(text, encoding="utf-8")

    def release(self) -> None:
        if self.lock.is_locked:
            with suppress(OSError):  # a folder that is gone or read-only: the lock goes with the file
                self.path.unlink(missing_ok=True)  # while it is still ours
            self.lock.release()

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def holder_text(path: Path) -> str:
    """Who holds it; waits a moment for a holder that has not written its name yet."""
    for _ in range(PATIENCE):
        text = _text(path)
        if text or not path.exists():
            break
        time.sleep(0.01)
    return text.removeprefix(PREFIX)[:200] or "another process"


def holder(folder: Path) -> str | None:
    """Who seems to be writing there, None if nobody. The lock is not touched, so no writer is stopped."""
    if not (folder / LOCK).exists():
        return None
    who = holder_text(folder / LOCK)
    match = re.match(r"process (\d+) on (\S+)", who)
    if match is not None and match[2] == socket.gethostname() and os.name != "nt":
        try:
            os.kill(int(match[1]), 0)
        except ProcessLookupError:
            return None  # it was killed, and its lock's text is all that is left
        except OSError:
            pass  # somebody else's process
    return who


@contextmanager
def lock_for_writer(folder: Path) -> Iterator[Lock]:
    """A lock for a writer that is made within the `with` and holds it from then on."""
    lock = Lock(folder)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise
