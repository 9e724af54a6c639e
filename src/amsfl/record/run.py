"""A run's folder: config.toml, rounds.jsonl, a checkpoint, summary.json. Plain formats, no pickle.

Rounds are appended as they happen, so a killed run leaves a readable record; everything else is written
beside and renamed, so a file is whole or not there. At a checkpoint all of it is on the disk.
"""

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from amsfl.core import DiskError
from amsfl.core.records import Json
from amsfl.record import disk, folder, sealed_text
from amsfl.record import run_reader as reader
from amsfl.record.lock import Lock, lock_for_writer
from amsfl.record.run_reader import FILES, KINDS, POINTER, ROUNDS, SLOTS, SUMMARY
from amsfl.record.schema import Checkpoint, Manifest, RoundRecord, Summary
from amsfl.record.tensors import TensorFile


class RunWriter(folder.RecordWriter):
    """A run's folder with us as its only writer, until the `with` ends."""

    def __init__(self, where: Path, lock: Lock):
        super().__init__(where, lock, *KINDS)
        self.slot = 0
        self.file = -1
        self.crc = self.manifest.identity

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
        super().close()

    def append(self, record: RoundRecord) -> None:
        """One more line. Not yet on the disk: that is a checkpoint's business."""
        line, crc = sealed_text.seal_line(record._asdict(), self.crc)
        with disk.explain_errors("written", self.where / ROUNDS, self._again):
            disk.write_all(self._rounds(), line)
        self.crc = crc

    def checkpoint(self, point: Checkpoint) -> None:
        """Rounds and arrays first, then the pointer that names them with their hash; old arrays go last."""
        name, old, digest = SLOTS[self.slot], SLOTS[1 - self.slot], sha256()

        def content() -> Iterator[bytes | memoryview]:
            for piece in TensorFile(point.arrays):
                digest.update(piece)
                yield piece

        with disk.explain_errors("written", self.where / ROUNDS, self._again):
            os.fsync(self._rounds())  # a power cut must not leave fewer rounds than this
        disk.write_atomically(self.where / name, content())
        names = {
            "round": point.round,
            "arrays": name,
            "sha256": digest.hexdigest(),
            "host": sealed_text.encode_floats(point.host),
        }
        folder.write_sealed(self.where / POINTER, names, self.manifest.identity)
        disk.remove(self.where / old)
        self.slot = 1 - self.slot

    def end(self, summary: Summary, models: Mapping[str, disk.Content] | None = None) -> None:
        """The model that leaves, then the end."""
        for name, content in (models or {}).items():
            disk.write_atomically(self.where / name, content)
        summary = summary._replace(files={name: disk.digest(each) for name, each in (models or {}).items()})
        folder.write_sealed(self.where / SUMMARY, summary._asdict(), self.manifest.identity)

    def last_checkpoint(self, mapped: bool = False) -> Checkpoint | None:
        return reader.load_checkpoint(self.where, self.manifest, mapped)

    def rewind(self, point: Checkpoint | None) -> list[RoundRecord]:
        """Cut the record back to a checkpoint's rounds: what came after will be run again."""
        count = point.round if point else 0
        whole = reader.lines(self.where, self.manifest, count)
        kept = reader.records(self.where, whole)
        if len(kept) < count:
            raise reader.too_few(self.where, count, len(kept))
        with disk.explain_errors("written", self.where / ROUNDS):
            os.ftruncate(self._rounds(), whole.end)
        self.crc = whole.crc
        pointed = disk.exists(self.where / POINTER) and reader.pointer(self.where, self.manifest)["arrays"]
        self.slot = 1 if pointed == SLOTS[0] else 0
        disk.remove(self.where / SLOTS[self.slot])  # what a killed process left of it
        return kept

    def describe(self, about: Json) -> None:
        """Add facts about the run that were not known when it began."""
        self.set_manifest(about=self.manifest.about | about)

    def ended(self) -> Summary | None:
        """The end that is on record; a damaged one is none, and written again."""
        try:
            return reader.read_summary(self.where, self.manifest)
        except DiskError:
            return None

    def remove_summary(self) -> None:
        """Remove the summary: the run goes on."""
        disk.remove(self.where / SUMMARY)

    def _rounds(self) -> int:
        if self.file < 0:
            self.file = disk.open_to_append(self.where / ROUNDS)
        return self.file

    def _again(self) -> str:
        exists = self.where.exists()
        return f"the rounds before are kept, and go on with 'amsfl resume {self.where}'" if exists else ""


def check_free(where: Path, force: bool = False) -> None:
    """Whether a new run may begin there."""
    folder.check_free(where, FILES, KINDS, force)


def create(where: Path, manifest: Manifest, force: bool = False) -> RunWriter:
    """Make the folder of a new run. One that holds a run already is left alone unless `force`."""
    with lock_for_writer(where) as lock:
        files = [*FILES, *manifest.files]
        old = folder.check_free(where, files, KINDS, force)
        folder.start_record(where, manifest._replace(files=files), old)
        return RunWriter(where, lock)


def reopen(where: Path, *kinds: str) -> RunWriter:
    """The folder of a run that is to go on."""
    folder.read_manifest(where, *kinds)  # before a lock is put where there is no run
    with lock_for_writer(where) as lock:
        return RunWriter(where, lock)
