"""A study in parts: OUT/parts/3-of-8 is a study's folder with a writer of its own; all are one study.

Parts never write into each other's folders, so they may run on machines that share nothing but the disk.
"""

import re
from pathlib import Path

from amsfl.core import UserError
from amsfl.record import study
from amsfl.record.folder import changed_values, holds_record
from amsfl.record.schema import Manifest, StudyRecord

PARTS = "parts"
NAMED = re.compile(r"([1-9]\d*)-of-([1-9]\d*)")


def part_folder(where: Path, number: int, of: int) -> Path:
    """Where this part of the study in `where` is kept."""
    return where / PARTS / f"{number}-of-{of}"


def parts(where: Path) -> list[Path]:
    """The parts that have begun, in the order of their numbers."""
    home = where / PARTS
    folders = [path for path in home.iterdir() if NAMED.fullmatch(path.name)] if home.is_dir() else []
    return sorted((path for path in folders if holds_record(path)), key=_place)


def holds_parts(where: Path) -> bool:
    """Is this folder's study in parts?"""
    return not holds_record(where) and bool(parts(where))


def check_part_count(where: Path, of: int | None) -> None:
    """All of a study is in one folder, or cut into as many parts everywhere."""
    begun = parts(where)
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


def read_study(where: str | Path) -> StudyRecord:
    """Everything of a study, every line and file checked; parts are read as the one study that they are.

    Args:
        where: The study's folder, or the one that was `--out` of all its parts.

    Returns:
        Manifest and trials by entry.
    """
    where = Path(where)
    if not holds_parts(where):
        return study.read_study(where)
    begun = parts(where)
    check_part_count(where, _place(begun[0])[1])
    records = [study.read_study(path) for path in begun]
    manifest = _united(begun, [each.manifest for each in records])
    trials = {
        entry: sorted((trial for each in records for trial in each.trials[entry]), key=lambda t: t.trial)
        for entry in manifest.methods
    }
    return StudyRecord(manifest, trials)


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
    changed = [*first.changed, *filter(None, machines)]
    return most._replace(machine=first.machine, changed=changed, files=[])


def _place(path: Path) -> tuple[int, int]:
    """The part's number, and of how many."""
    number, of = path.name.split("-of-")
    return int(number), int(of)
