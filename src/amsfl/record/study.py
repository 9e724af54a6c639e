"""A study's folder: study.toml, and trials/ENTRY/FIRST-LAST.jsonl, each written whole or not at all.

A study in parts has a folder of its own for each, OUT/parts/3-of-8, and all are one study. Parts never write
into each other's folders, so they may run on machines that share nothing but the disk.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.record import disk, folder
from amsfl.record.folder import Lock, changed_values, holds_record
from amsfl.record.schema import Manifest, RoundRecord, StudyRecord, Summary, TrialRecord

SETTINGS, TRIALS, PARTS = folder.SETTINGS["study"], "trials", "parts"
TRIAL_FILE, PART = re.compile(r"(\d{4,})-(\d{4,})\.jsonl"), re.compile(r"([1-9]\d*)-of-([1-9]\d*)")


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
    """Everything of a study, every line checked; parts are read as the one study that they are.

    Args:
        where: The study's folder, or the one that was `--out` of all its parts.

    Returns:
        Manifest and trials by entry.
    """
    where = Path(where)
    begun = _parts(where)
    if holds_record(where) or not begun:
        manifest = folder.read_manifest(where, "study")
        return StudyRecord(manifest, {entry: read_entry(where, entry) for entry in manifest.methods})
    check_part_count(where, _place(begun[0])[1])
    records = [read_study(path) for path in begun]
    manifest = _united(begun, [each.manifest for each in records])
    trials = {
        entry: sorted((trial for each in records for trial in each.trials[entry]), key=lambda t: t.trial)
        for entry in manifest.methods
    }
    return StudyRecord(manifest, trials)


def read_entry(where: Path, entry: str) -> list[TrialRecord]:
    """An entry's finished trials in the order of their numbers."""
    disk.safe_name(entry, "The method's entry")
    home = _home(where, entry)
    files = [path for path in home.iterdir() if TRIAL_FILE.fullmatch(path.name)] if home.is_dir() else []
    return [trial for path in sorted(files) for trial in _read_trials(path, entry)]


def _home(where: Path, entry: str) -> Path:
    return disk.inside(where, where / TRIALS / entry)


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


def part_folder(where: Path, number: int, of: int) -> Path:
    """Where this part of the study in `where` is kept."""
    return where / PARTS / f"{number}-of-{of}"


def holds_parts(where: Path) -> bool:
    """Is this folder's study in parts?"""
    return not holds_record(where) and bool(_parts(where))


def _parts(where: Path) -> list[Path]:
    """The parts that have begun, in the order of their numbers."""
    home = where / PARTS
    folders = [path for path in home.iterdir() if PART.fullmatch(path.name)] if home.is_dir() else []
    return sorted((path for path in folders if holds_record(path)), key=_place)


def _place(path: Path) -> tuple[int, int]:
    """The part's number, and of how many."""
    number, of = path.name.split("-of-")
    return int(number), int(of)


def check_part_count(where: Path, of: int | None) -> None:
    """All of a study is in one folder, or cut into as many parts everywhere."""
    begun = _parts(where)
    if of is not None and holds_record(where):
        raise UserError(f"The folder {str(where)!r} holds a whole study; choose another --out for its parts.")
    if of is None and begun:
        raise UserError(
            f"The folder {str(where)!r} holds parts of a study: go on with --part, as in --part "
            f"{begun[0].name.replace('-of-', '/')}, see them with 'amsfl report {where}', or choose another "
            "--out."
        )
    other = next((count for _, count in map(_place, begun) if count != of), None)
    if other is not None:
        raise UserError(
            f"The study in {str(where)!r} is cut into {other} parts, not {of}, and trials would be run "
            "twice; keep to that number, or choose another --out."
        )


def _united(begun: list[Path], manifests: list[Manifest]) -> Manifest:
    first = manifests[0]
    for path, other in zip(begun, manifests, strict=True):
        if other.identity != first.identity:
            raise UserError(
                f"{str(path)!r} is a part of another study than {str(begun[0])!r}: settings or data are not "
                "the same (their study.toml tell which). Run it again with the others' command and --force."
            )
    most = max(manifests, key=lambda each: each.settings["trials"])
    machines = [changed_values(first.machine, each.machine) for each in manifests]
    return most._replace(machine=first.machine, changed=[*first.changed, *filter(None, machines)])
