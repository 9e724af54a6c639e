"""What a killed `amsfl deploy` left running, found in its record folder and ended by its own ids.

Every process that is started is written down with the moment it began, by the kernel's count: an id alone
may belong to somebody else by now.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from amsfl import record

BOOK = "deploy-processes.json"  # beside the record
FOLDER = "deploy-folder.json"  # which temporary folder is in use
MARK = "amsfl-deploy-of"  # in that folder: whose it is


def note(book: Path, running: Mapping[str, int]) -> None:
    """Write down who runs, by name and id."""
    record.write_sealed(book, {name: [pid, began(pid)] for name, pid in running.items()})


def end(book: Path) -> list[str]:
    """End those of the book that still run, with all their children; their names."""
    if not book.exists():
        return []
    held = record.read_sealed(book, "move it away; look for flower processes yourself.")
    alive = {name: pid for name, (pid, start) in held.items() if start and began(pid) == start}
    doomed = {child for pid in alive.values() for child in [pid, *descendants(pid)]}
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    book.unlink(missing_ok=True)
    return sorted(alive)


def note_folder(where: Path, folder: Path) -> None:
    """Write down a temporary folder: it holds rows and keys, and a killed deployment leaves it lying."""
    (folder / MARK).write_text(str(where))
    record.write_sealed(where / FOLDER, {"folder": str(folder)})


def remove_folder(where: Path) -> bool:
    """Remove the folder that is written down, if it is there and says itself that it belongs here."""
    if not (where / FOLDER).exists():
        return False
    folder = Path(str(record.read_sealed(where / FOLDER, "move it away.")["folder"]))
    (where / FOLDER).unlink()
    if not (folder / MARK).is_file() or (folder / MARK).read_text() != str(where):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def began(pid: int) -> int:
    """When a process was started, in the kernel's ticks; 0 where it is gone or there is no /proc."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_stat(Path(f"/proc/{pid}/stat"))[19])
    return 0


def descendants(pid: int) -> list[int]:
    """Children of a process, and theirs, by their ids; nothing where there is no /proc."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents.setdefault(int(_stat(stat)[1]), []).append(int(stat.parent.name))
    children, queue = [], [pid]
    while queue:
        born = parents.get(queue.pop(), [])
        children += born
        queue += born
    return children


def _stat(path: Path) -> list[str]:
    return path.read_text().rsplit(")", 1)[1].split()  # the name before it may hold anything
