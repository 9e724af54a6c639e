"""One writer a folder: a lock that the system lets go of when its holder dies, however it dies.

The file beside the lock's name says who holds it. What it says is for people; a text that a dead process
left behind is no obstacle.
"""

import errno
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amsfl.core import UserError
from amsfl.record import disk

LOCK = ".amsfl-lock"
PATIENCE = 100  # looks at a lock that says nothing yet, a hundredth of a second apart
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # file systems that have none

try:
    import fcntl

    def _seize(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

except ImportError:  # Windows: one byte far behind the text, so that the text can still be read
    import msvcrt

    def _seize(file: int) -> None:
        os.lseek(file, 2**30, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        os.lseek(file, 0, os.SEEK_SET)


class Busy(UserError):
    """Somebody else writes there now."""


class Lock:
    """Held from its making until `release`, or until the process is gone."""

    def __init__(self, folder: Path, name: str = LOCK):
        self.path = folder / name
        with disk.explain_errors("locked", self.path):
            self.file = self._take()
            os.ftruncate(self.file, 0)
            os.lseek(self.file, 0, os.SEEK_SET)
            disk.write_all(self.file, f"amsfl: {me()}\n".encode())

    def _take(self) -> int:
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            try:
                _seize(file)
            except OSError as error:
                if error.errno in NO_LOCKS:
                    warnings.warn(
                        f"The file system of {self.path.parent} has no locks: see to it yourself that "
                        "nothing else writes there.",
                        stacklevel=2,
                    )
                    return file
                os.close(file)
                if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                    raise Busy(
                        f"The folder {str(self.path.parent)!r} is being written by {holder_text(self.path)}; "
                        "wait until that ends, or choose another folder."
                    ) from None
                raise
            text = os.read(file, 200)
            if text and not text.startswith(b"amsfl: "):
                os.close(file)
                raise UserError(f"{str(self.path)!r} is not a lock of amsfl's; move it away.")
            # whoever held it before us may have removed the file between our opening and locking it
            if disk.exists(self.path) and os.path.samestat(os.fstat(file), os.stat(self.path)):
                return file
            os.close(file)

    def release(self) -> None:
        if self.file >= 0:
            file, self.file = self.file, -1
            try:
                self.path.unlink(missing_ok=True)  # while it is still ours
            except OSError:
                pass  # a folder that is gone or read-only: the lock goes with the file
            finally:
                os.close(file)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def me() -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} on {socket.gethostname()} since {started}"


def holder_text(path: Path) -> str:
    """Who holds it. Whoever has just taken it is about to write that, and is given a moment for it."""
    for _ in range(PATIENCE):
        try:
            text = path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            break
        if text:
            return text.removeprefix("amsfl: ")[:200]
        time.sleep(0.01)
    return "another process"


def holder(folder: Path, name: str = LOCK) -> str | None:
    """Who is writing there now, None if nobody is."""
    path = folder / name
    if not path.exists():
        return None
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        _seize(file)
    except OSError:
        return holder_text(path)
    finally:
        os.close(file)
    return None


@contextmanager
def locked(folder: Path, name: str = LOCK) -> Iterator[None]:
    """`with locked(folder):` where a folder is written and nothing else is kept open."""
    disk.make_folder(folder)
    with Lock(folder, name):
        yield
