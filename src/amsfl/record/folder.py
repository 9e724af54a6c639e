"""A record's folder: record.json says what it is; whoever writes there holds a lock of the system's.

The lock is free again when its holder dies, however it dies. Its file says who holds it, for people.
"""

import os
import socket
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import tomli_w
from filelock import FileLock, Timeout

from amsfl.core import DiskError, Remark, UserError, listed
from amsfl.core.records import Json, JsonMapping
from amsfl.record import disk
from amsfl.record.schema import FORMAT, Manifest

MANIFEST, LOCK = "record.json", ".amsfl-lock"
SETTINGS = {"run": "config.toml", "flower": "config.toml", "study": "study.toml"}
KINDS = {
    "run": "a simulated run; continue it with 'amsfl resume'",
    "flower": "a run of real clients; continue it with Flower and resume=true",
    "study": "a study; continue it with the command that began it",
}


class Lock:
    """Held from its making, which makes the folder too, until `release`, or until the process is gone."""

    def __init__(self, folder: Path):
        disk.make_folder(folder)
        self.path = folder / LOCK
        self.lock = FileLock(self.path, timeout=0, thread_local=False)
        with disk.explain_errors("locked", self.path):
            try:
                self.lock.acquire()
            except Timeout:
                raise UserError(
                    f"The folder {str(folder)!r} is being written by {self._holder()}; wait until that "
                    "ends, or choose another folder."
                ) from None
            started = time.strftime("%Y-%m-%d %H:%M:%S")
            self.path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {started}\n")

    def _holder(self) -> str:
        with suppress(OSError):
            if holder := self.path.read_text(encoding="utf-8", errors="replace").strip():
                return holder[:200]
        return "another process"

    def release(self) -> None:
        if self.lock.is_locked:
            with suppress(OSError):  # a folder that is gone or read-only: the lock goes with the file
                self.path.unlink(missing_ok=True)  # while it is still ours
            self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def lock_for_writer(folder: Path) -> Iterator[Lock]:
    """A lock for a writer that is made within the `with` and holds it from then on."""
    lock = Lock(folder)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def holds_record(folder: Path) -> bool:
    return disk.exists(folder / MANIFEST)


def read_manifest(folder: Path, *kinds: str) -> Manifest:
    """What the folder says it is; of one of these kinds, if any are named."""
    path = folder / MANIFEST
    if not disk.exists(folder):
        raise UserError(f"There is no folder {str(folder)!r}; give one that a run or a study wrote.")
    if not disk.exists(path):
        inside = [str(each.parent) for each in sorted(folder.glob(f"*/{MANIFEST}"))]
        name = f"; there are records in {listed(inside)}" if inside else ""
        raise UserError(f"The folder {str(folder)!r} holds no record: it has no {MANIFEST}{name}.")
    content = disk.read(path)
    try:
        stored = disk.loads(content)
        if stored.get("format") != FORMAT:
            raise DiskError(
                f"The record in {str(folder)!r} has format {stored.get('format')!r}, and this amsfl reads "
                f"and writes format {FORMAT}: use the amsfl that wrote it "
                f"({stored.get('version', 'unknown')}), or start a new one in another folder."
            )
        manifest = disk.from_plain(Manifest, disk.unseal(content))
    except disk.Damaged as bad:
        then = "what is in the folder cannot be told without it: start a new record in another folder."
        raise disk.damaged(path, bad, then) from None
    if kinds and manifest.kind not in kinds:
        what = KINDS.get(manifest.kind, manifest.kind)
        raise UserError(f"The folder {str(folder)!r} holds {what}. Or choose another folder.")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    disk.write_sealed(folder / MANIFEST, disk.plain(manifest))


def changed_values(was: JsonMapping, now: JsonMapping) -> dict[str, list[Any]]:
    """Both values of what is not the same, by key."""
    pairs = {key: [was.get(key), now.get(key)] for key in sorted(was.keys() | now.keys())}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def check_same(manifest: Manifest, made_from: Json, machine: Json, anyway: bool) -> None:
    """Raise if a resumed run would not find what it began with."""
    for what, (was, now) in changed_values(manifest.made_from, made_from).items():
        if disk.dumps(was) != disk.dumps(now):
            then = "give it the same data, model and costs as before, or start a new run."
            raise UserError(f"{_change(what, was, now)}; {then}")
    for what, (was, now) in changed_values(manifest.machine, machine).items():
        if not anyway:
            then = "Go on where it began, or pass --anyway, which goes on record."
            raise UserError(f"{_change(what, was, now)}: it would not end with the same bits. {then}")


def _change(what: str, *values: Any) -> str:
    was, now = (text if len(text) <= 80 else text[:77] + "..." for text in map(repr, values))
    return f"The run began with {what} {was} and would continue with {now}"


def check_free(folder: Path, files: Iterable[str], kinds: Sequence[str], force: bool) -> Manifest | None:
    """A new record may begin here: none is there, or one to be replaced (returned), and no foreign file."""
    if holds_record(folder):
        old = read_manifest(folder, *kinds)
        if not force:
            raise UserError(
                f"The folder {str(folder)!r} already holds a {old.kind}; choose another --out, continue "
                f"it with 'amsfl resume {folder}', or overwrite it with --force."
            )
        return old
    for name in files:
        if disk.exists(folder / name):
            raise UserError(
                f"The folder {str(folder)!r} has a file {name!r} that is no record's of this amsfl, and it "
                "would be overwritten; choose another --out, or move it away."
            )
    return None


class RecordWriter:
    """A record's folder with us as its only writer, until the `with` ends."""

    def __init__(self, where: Path, lock: Lock, *kinds: str):
        self.where, self.lock, self.manifest = where, lock, read_manifest(where, *kinds)
        disk.clear(where)
        if self._write_settings():
            warnings.warn(
                f"{str(where / SETTINGS[self.manifest.kind])!r} was edited: a record keeps the settings it "
                "began with, and the file says them again; for other settings start a new one.",
                Remark,
                stacklevel=3,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.lock.release()

    def set_manifest(self, **fields: Any) -> None:
        self.manifest = self.manifest._replace(**fields)
        write_manifest(self.where, self.manifest)

    def change(self, settings: Json, machine: Json, since: int | None = None) -> None:
        """What the record goes on with, from a round on; what it had before stays in the manifest."""
        had = self.manifest.settings | self.manifest.machine
        if fresh := changed_values(had, settings | machine):
            changed = [*self.manifest.changed, ({} if since is None else {"round": since}) | fresh]
            self.set_manifest(settings=settings, machine=machine, changed=changed)
            self._write_settings()

    def _write_settings(self) -> bool:
        """For people, and for the same command again; a record goes by its manifest. TOML has no None.

        Returns whether there was a file that said something else.
        """
        settings = {key: value for key, value in self.manifest.settings.items() if value is not None}
        path, content = self.where / SETTINGS[self.manifest.kind], tomli_w.dumps(settings).encode()
        there = path.read_bytes() if path.is_file() else None
        if there != content:
            disk.write_atomically(path, content)
        return there not in (None, content)
