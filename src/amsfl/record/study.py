"""A study's folder: study.toml, and trials/ENTRY/FIRST-LAST.jsonl, each written whole or not at all."""

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.record import disk, folder, sealed_text
from amsfl.record.lock import Lock
from amsfl.record.schema import Manifest, RoundRecord, StudyRecord, Summary, TrialRecord

SETTINGS, TRIALS = folder.SETTINGS["study"], "trials"


class StudyWriter(folder.RecordWriter):
    """A study's folder with us as its only writer, until the `with` ends."""

    def __init__(self, where: Path, lock: Lock):
        super().__init__(where, lock, "study")

    def finished(self, entry: str) -> list[TrialRecord]:
        return read_entry(self.where, self.manifest, entry)

    def save(self, entry: str, trials: Sequence[TrialRecord]) -> None:
        """The manifest first: a file that it does not list is not ours, and stays as it is."""
        name = _name(entry, trials[0].trial, trials[-1].trial)
        path = disk.inside(self.where, self.where / name)
        if name not in self.manifest.files:
            if disk.exists(path):
                raise UserError(f"{str(path)!r} is not a file of this study's; move it away.")
            self.set_manifest(files=[*self.manifest.files, name])
        lines, crc = [], _start(self.manifest, name)
        for trial in trials:
            line, crc = sealed_text.seal_line(_row(trial), crc)
            lines.append(line)
        disk.make_folder(path.parent)
        disk.write_atomically(path, b"".join(lines))


def create(where: Path, manifest: Manifest, old: Manifest | None, lock: Lock) -> StudyWriter:
    """A new study, in place of the old one if there is one; `lock` is held by now."""
    for entry in manifest.methods:
        disk.safe_name(entry, "The method's entry")
    folder.start_record(where, manifest._replace(files=[SETTINGS]), old)
    return StudyWriter(where, lock)


def read_study(where: Path) -> StudyRecord:
    """Everything that one folder has of a study, every line and file checked."""
    manifest = folder.read_manifest(where, "study")
    if not manifest.replaces:
        folder.read_settings(where, manifest)
    return StudyRecord(manifest, {entry: read_entry(where, manifest, entry) for entry in manifest.methods})


def read_entry(where: Path, manifest: Manifest, entry: str) -> list[TrialRecord]:
    """An entry's finished trials in the order of their numbers."""
    if manifest.replaces:
        return []
    disk.safe_name(entry, "The method's entry")
    mine = [name for name in manifest.files if name.startswith(f"{TRIALS}/{entry}/")]
    trials = [trial for name in mine for trial in read_trials(where, manifest, name)]
    return sorted(trials, key=lambda trial: trial.trial)


def read_trials(where: Path, manifest: Manifest, name: str) -> list[TrialRecord]:
    """One of the manifest's files of trials."""
    entry, path = name.split("/")[1], disk.inside(where, where / name)
    if not disk.exists(path):
        return []  # listed, and then the process was killed: it is run again
    content = disk.read(path)
    try:
        lines = sealed_text.unseal_lines(content, _start(manifest, name))
        trials = [
            TrialRecord(**row)._replace(
                summary=Summary(**row["summary"]), rounds=[RoundRecord.of(each) for each in row["rounds"]]
            )
            for row in lines.rows
        ]
        if lines.bad:
            raise sealed_text.Damaged(lines.bad)
        if not trials or lines.end != len(content) or name != _name(entry, trials[0].trial, trials[-1].trial):
            raise sealed_text.Damaged("lines are missing at its end")
        return trials
    except (sealed_text.Damaged, TypeError, KeyError) as bad:
        then = "remove it, and the study's command runs these trials again."
        raise folder.damaged(path, bad, then) from None


def _name(entry: str, first: int, last: int) -> str:
    return f"{TRIALS}/{entry}/{first:04d}-{last:04d}.jsonl"


def _start(manifest: Manifest, name: str) -> int:
    """A file in another's place is noticed: its checksums begin from its name."""
    return crc32(name.encode(), manifest.identity)


def _row(trial: TrialRecord) -> Json:
    """A trial for JSON; fields of a round that have their default are left out."""
    rounds = [_short(each) for each in trial.rounds]
    summary = {key: value for key, value in trial.summary._asdict().items() if key != "wall"}
    return trial._asdict() | {"summary": summary, "rounds": rounds}


def _short(record: RoundRecord) -> Json:
    none = RoundRecord._field_defaults
    return {
        key: value for key, value in record._asdict().items() if value == value and value != none.get(key)
    }
