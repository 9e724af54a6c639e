"""A study's folder: study.toml, and trials/ENTRY/FIRST-LAST.jsonl, each written whole or not at all."""

import re
from collections.abc import Sequence
from pathlib import Path

from amsfl.core.records import Json
from amsfl.record import disk, folder
from amsfl.record.folder import Lock, holds_record
from amsfl.record.schema import Manifest, RoundRecord, StudyRecord, Summary, TrialRecord

SETTINGS, TRIALS = folder.SETTINGS["study"], "trials"
TRIAL_FILE = re.compile(r"(\d{4,})-(\d{4,})\.jsonl")


class StudyWriter(folder.RecordWriter):
    """A study's folder with us as its only writer, until the `with` ends."""

    def __init__(self, where: Path, lock: Lock):
        super().__init__(where, lock, "study")
        for home in (where / TRIALS).glob("*/"):
            disk.clear(home)

    def finished(self, entry: str) -> list[TrialRecord]:
        return read_entry(self.where, entry)

    def save(self, entry: str, trials: Sequence[TrialRecord]) -> None:
        """Trials of one block, in a file of their own."""
        path = _home(self.where, entry) / f"{trials[0].trial:04d}-{trials[-1].trial:04d}.jsonl"
        disk.make_folder(path.parent)
        disk.write_atomically(path, b"".join(disk.seal(_row(trial)) for trial in trials))


def create(where: Path, manifest: Manifest, lock: Lock) -> StudyWriter:
    """A new study, in place of the old one if there is one; `lock` is held by now."""
    for entry in manifest.methods:
        disk.safe_name(entry, "The method's entry")
    if holds_record(where):
        for path in sorted((where / TRIALS).glob("*/*.jsonl")):
            if TRIAL_FILE.fullmatch(path.name):
                disk.remove(path)
    folder.write_manifest(where, manifest)
    return StudyWriter(where, lock)


def read_study(where: str | Path) -> StudyRecord:
    """Everything of a study, every line checked.

    Args:
        where: The study's folder.

    Returns:
        Manifest and trials by entry.
    """
    where = Path(where)
    manifest = folder.read_manifest(where, "study")
    return StudyRecord(manifest, {entry: read_entry(where, entry) for entry in manifest.methods})


def read_entry(where: Path, entry: str) -> list[TrialRecord]:
    """An entry's finished trials in the order of their numbers."""
    disk.safe_name(entry, "The method's entry")
    home = _home(where, entry)
    files = [path for path in home.iterdir() if TRIAL_FILE.fullmatch(path.name)] if home.is_dir() else []
    return [trial for path in sorted(files) for trial in _read_trials(path, entry)]


def _home(where: Path, entry: str) -> Path:
    return where / TRIALS / entry


def _read_trials(path: Path, entry: str) -> list[TrialRecord]:
    content = disk.read(path)
    first, last = map(int, path.stem.split("-"))
    try:
        rows, end, bad = disk.unseal_lines(content)
        trials = [
            TrialRecord(**row)._replace(
                summary=Summary(**row["summary"]), rounds=[RoundRecord.of(each) for each in row["rounds"]]
            )
            for row in rows
        ]
        if bad or end != len(content):
            raise disk.Damaged(bad or "lines are missing at its end")
        numbers = [trial.trial for trial in trials]
        if {trial.entry for trial in trials} != {entry} or numbers != sorted({*numbers, first, last}):
            raise disk.Damaged("its trials are others")
        return trials
    except (disk.Damaged, TypeError, KeyError) as why:
        then = "remove it, and the study's command runs these trials again."
        raise disk.damaged(path, why, then) from None


def _row(trial: TrialRecord) -> Json:
    """A trial for JSON; fields of a round that have their default are left out."""
    none = RoundRecord._field_defaults
    rounds = [
        {key: value for key, value in each._asdict().items() if value == value and value != none.get(key)}
        for each in trial.rounds
    ]
    return trial._asdict() | {"summary": trial.summary._asdict(), "rounds": rounds}
