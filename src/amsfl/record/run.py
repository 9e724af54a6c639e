"""A run's folder: config.toml, rounds.jsonl, checkpoint.safetensors, summary.json, and the model.

Plain formats, no pickle. Rounds are appended as they happen, so a killed run leaves a readable record; all
else is written beside and renamed, so a file is whole or not there. At a checkpoint all of it is on the disk.
"""

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from amsfl.core import DiskError, Remark
from amsfl.core.records import Array
from amsfl.record import disk, folder
from amsfl.record.folder import Lock, lock_for_writer
from amsfl.record.schema import Checkpoint, Manifest, RoundRecord, RunRecord, Summary

CONFIG, ROUNDS, SUMMARY = folder.SETTINGS["run"], "rounds.jsonl", "summary.json"
CHECKPOINT = "checkpoint.safetensors"
KEPT = "amsfl"  # in its metadata: the round, the host's memory and a checksum of all
MODEL, BEST, ABOUT_MODEL, CARD = "model.safetensors", "model-best.safetensors", "model.json", "MODEL.md"
MODELS = (MODEL, BEST, ABOUT_MODEL, CARD)  # what leaves: amsfl.portable reads and writes what is in them
FILES = (SUMMARY, CHECKPOINT, ROUNDS, CONFIG, *MODELS)
KINDS = ("run", "flower")


class RunWriter(folder.RecordWriter):
    """A run's folder with us as its only writer, until the `with` ends."""

    def __init__(self, where: Path, lock: Lock):
        super().__init__(where, lock, *KINDS)
        self.file = -1

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
        super().close()

    def append(self, record: RoundRecord) -> None:
        """One more line. Not yet on the disk: that is a checkpoint's business."""
        with disk.explain_errors("written", self.where / ROUNDS, self._again):
            disk.write_all(self._rounds(), disk.seal(record._asdict()))

    def checkpoint(self, point: Checkpoint) -> None:
        """Rounds first: a power cut must not leave fewer of them than the checkpoint says."""
        with disk.explain_errors("written", self.where / ROUNDS, self._again):
            os.fsync(self._rounds())
        arrays = {name: np.asarray(part, order="C") for name, part in point.arrays.items()}
        about = json.dumps([point.round, point.host])  # numbers to the bit, infinities too
        metadata = {KEPT: json.dumps({"about": about, "crc": _sum(about, arrays)})}
        disk.write_atomically(self.where / CHECKPOINT, save(arrays, metadata))

    def end(self, summary: Summary, models: Mapping[str, bytes] | None = None) -> None:
        """The model that leaves, then the end."""
        for name, content in (models or {}).items():
            disk.write_atomically(self.where / name, content)
        summary = summary._replace(files={name: disk.digest(each) for name, each in (models or {}).items()})
        disk.write_sealed(self.where / SUMMARY, summary._asdict())

    def last_checkpoint(self) -> Checkpoint | None:
        return load_checkpoint(self.where)

    def rewind(self, point: Checkpoint | None) -> list[RoundRecord]:
        """Cut the record back to a checkpoint's rounds: what came after will be run again."""
        count = point.round if point else 0
        text = disk.read(self.where / ROUNDS) if disk.exists(self.where / ROUNDS) else b""
        rows, end, bad = disk.unseal_lines(b"".join(text.splitlines(keepends=True)[:count]), "round")
        if len(rows) < count:
            raise _too_few(self.where, count, len(rows), bad)
        with disk.explain_errors("written", self.where / ROUNDS):
            os.ftruncate(self._rounds(), end)
        return [RoundRecord.of(row) for row in rows]

    def ended(self) -> Summary | None:
        """The end that is on record; a damaged one is none, and written again."""
        try:
            return read_summary(self.where)
        except DiskError:
            return None

    def remove_summary(self) -> None:
        """Remove the summary: the run goes on."""
        disk.remove(self.where / SUMMARY)

    def _rounds(self) -> int:
        if self.file < 0:
            how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self.file = os.open(self.where / ROUNDS, how, 0o666)
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
        if folder.check_free(where, FILES, KINDS, force):
            for name in FILES:
                disk.remove(where / name)
        folder.write_manifest(where, manifest)
        return RunWriter(where, lock)


def reopen(where: Path, *kinds: str) -> RunWriter:
    """The folder of a run that is to go on."""
    folder.read_manifest(where, *kinds)  # before a lock is put where there is no run
    with lock_for_writer(where) as lock:
        return RunWriter(where, lock)


def read_run(where: str | Path) -> RunRecord:
    """Everything of a run but its arrays, every line checked; damaged ones at its end are left out.

    Args:
        where: The run's folder.

    Returns:
        Manifest, rounds and summary.
    """
    where = Path(where)
    manifest = folder.read_manifest(where, *KINDS)
    summary = read_summary(where)  # first: a run that is going on may add rounds meanwhile
    text = disk.read(where / ROUNDS) if disk.exists(where / ROUNDS) else b""
    rows, _, bad = disk.unseal_lines(text, "round")
    if summary is not None and summary.rounds != len(rows):
        raise _too_few(where, summary.rounds, len(rows), bad)
    if bad:
        warnings.warn(
            f"{str(where / ROUNDS)!r} is damaged at its end ({bad}): the {len(rows)} rounds "
            f"before it are read; 'amsfl resume {where}' runs the others again.",
            Remark,
            stacklevel=2,
        )
    return RunRecord(manifest, [RoundRecord.of(row) for row in rows], summary)


def read_summary(where: Path) -> Summary | None:
    path = where / SUMMARY
    if not disk.exists(path):
        return None
    way_out = f"'amsfl resume {where}' writes it again."
    try:
        return Summary(**disk.read_sealed(path, way_out))
    except TypeError as bad:
        raise disk.damaged(path, bad, way_out) from None


def check_models(where: Path) -> None:
    """Check that the model in a run's folder is that run's; a folder without a record is an export."""
    if not folder.holds_record(where):
        return
    folder.read_manifest(where, *KINDS)
    summary = read_summary(where)
    if summary is None:
        raise DiskError(
            f"The run in {str(where)!r} has not ended, so its model is not known yet: go on with "
            f"'amsfl resume {where}'."
        )
    for name, expected in summary.files.items():
        path = where / name
        if not path.is_file() or disk.digest(path.read_bytes()) != expected:
            what = "was changed, or is another run's" if path.is_file() else "is gone"
            raise DiskError(f"{str(path)!r} {what}: 'amsfl resume {where}' writes it again.")


def load_checkpoint(where: Path) -> Checkpoint | None:
    """The last checkpoint, None if the run had not come to its first; a damaged one is an error."""
    path = where / CHECKPOINT
    if not disk.exists(path):
        if disk.exists(where / SUMMARY):
            raise disk.damaged(path, "the run has ended, and it is gone", restart(where))
        return None
    with disk.explain_errors("read", path, lambda: restart(where).rstrip(".")):
        try:
            with safe_open(path, "np") as file:
                stored = disk.loads((file.metadata() or {}).get(KEPT, "").encode())
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if stored["crc"] != _sum(stored["about"], arrays):
                raise disk.Damaged("its checksum does not fit")
            number, host = json.loads(stored["about"])
            return Checkpoint(number, arrays, host)
        except (SafetensorError, disk.Damaged, KeyError, TypeError, ValueError) as bad:
            raise disk.damaged(path, bad, restart(where)) from None


def _sum(about: str, arrays: Mapping[str, Array]) -> str:
    whole = (part for name in sorted(arrays) for part in (_bytes(name), arrays[name]))
    return disk.checksum_arrays(_bytes(about), *whole)


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode(), np.uint8)


def restart(where: Path) -> str:
    return f"start again with 'amsfl run --config {where / CONFIG} --out {where} --force'."


def _too_few(where: Path, wanted: int, there: int, bad: str) -> DiskError:
    why = f" ({bad})" if bad else ""
    rounds = f"{str(where / ROUNDS)!r} has {there} whole rounds, and there should be {wanted}{why}"
    return DiskError(f"{rounds}: {restart(where)}")
