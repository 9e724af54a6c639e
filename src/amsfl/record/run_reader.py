"""What a run's folder says, every line and file checked as it is read."""

from hashlib import file_digest, sha256
from pathlib import Path

import numpy as np

from amsfl.core import DiskError
from amsfl.core.records import Json
from amsfl.record import disk, folder, sealed_text
from amsfl.record.schema import Checkpoint, Manifest, RoundRecord, RunRecord, Summary
from amsfl.record.tensors import mapped_tensors

CONFIG, ROUNDS, POINTER, SUMMARY = folder.SETTINGS["run"], "rounds.jsonl", "checkpoint.json", "summary.json"
TROUBLE = "refused.jsonl"  # of real clients: what went wrong with one, a line each, written when it happens
SLOTS = ("checkpoint-a.safetensors", "checkpoint-b.safetensors")  # in turns: the last one stays whole
MODEL, BEST, ABOUT_MODEL, CARD = "model.safetensors", "model-best.safetensors", "model.json", "MODEL.md"
MODELS = (MODEL, BEST, ABOUT_MODEL, CARD)  # what leaves: amsfl.portable reads and writes what is in them
FILES = (CONFIG, ROUNDS, POINTER, SUMMARY, *SLOTS, *MODELS)
KINDS = ("run", "flower")


def read_run(where: str | Path) -> RunRecord:
    """Everything of a run but its arrays, every line and file checked.

    Args:
        where: The run's folder.

    Returns:
        Manifest, rounds and summary.
    """
    where = Path(where)
    manifest = folder.read_manifest(where, *KINDS)
    if manifest.replaces:  # a run that has only just begun, beside the files of the one before
        return RunRecord(manifest, [], None)
    folder.read_settings(where, manifest)
    summary = read_summary(where, manifest)  # first: a run that is going on may add rounds meanwhile
    rounds = records(where, lines(where, manifest))
    if summary is not None and summary.rounds != len(rounds):
        raise too_few(where, summary.rounds, len(rounds))
    return RunRecord(manifest, rounds, summary)


def read_summary(where: Path, manifest: Manifest) -> Summary | None:
    path = where / SUMMARY
    if not disk.exists(path):
        return None
    way_out = f"'amsfl resume {where}' writes it again."
    try:
        return Summary(**folder.read_sealed(path, way_out, manifest.identity))
    except TypeError as bad:
        raise folder.damaged(path, bad, way_out) from None


def check_models(where: Path, summary: Summary) -> list[str]:
    """Names of the model's files; one that is gone, changed or of another run is an error."""
    for name, expected in summary.files.items():
        path = where / name
        if not path.is_file() or sha256(path.read_bytes()).hexdigest() != expected:
            what = "was changed, or is another run's" if path.is_file() else "is gone"
            raise DiskError(f"{str(path)!r} {what}: 'amsfl resume {where}' writes it again.")
    return list(summary.files)


def check_bound(where: Path) -> None:
    """Check that the model in a run's folder is that run's; a folder without a record is an export."""
    if folder.holds_record(where):
        summary = read_summary(where, folder.read_manifest(where, *KINDS))
        if summary is None:
            raise DiskError(
                f"The run in {str(where)!r} has not ended, so its model is not known yet: go on with "
                f"'amsfl resume {where}'."
            )
        check_models(where, summary)


def lines(where: Path, manifest: Manifest, at_most: int | None = None) -> sealed_text.Lines:
    """What of rounds.jsonl is whole."""
    path = where / ROUNDS
    if not disk.exists(path):
        return sealed_text.Lines([], manifest.identity, 0)
    return sealed_text.unseal_lines(disk.read(path), manifest.identity, at_most)


def records(where: Path, stored: sealed_text.Lines) -> list[RoundRecord]:
    """The lines as records, if none of them is damaged."""
    try:
        if stored.bad:
            raise sealed_text.Damaged(stored.bad)
        return [RoundRecord.of(row) for row in stored.rows]
    except (sealed_text.Damaged, TypeError) as bad:
        raise folder.damaged(where / ROUNDS, bad, restart(where)) from None


def pointer(where: Path, manifest: Manifest) -> Json:
    return folder.read_sealed(where / POINTER, restart(where), manifest.identity)


def load_checkpoint(where: Path, manifest: Manifest, mapped: bool = False) -> Checkpoint | None:
    """The last checkpoint, None if the run had not come to its first; a damaged one is an error.

    `mapped`: its arrays are not in memory, but mapped from the file, and cannot be written to.
    """
    if manifest.replaces:
        return None
    if not disk.exists(where / POINTER):
        if disk.exists(where / SUMMARY) and lines(where, manifest, 1).rows:
            raise folder.damaged(where / POINTER, "the run has ended, and it is gone", restart(where))
        return None
    stored = pointer(where, manifest)
    path = where / SLOTS[stored["arrays"] == SLOTS[1]]
    with disk.explain_errors("read", path, lambda: restart(where).rstrip(".")):
        with path.open("rb") as file:
            fits = file_digest(file, "sha256").hexdigest() == stored["sha256"]
        if not fits:
            raise folder.damaged(path, "its checksum does not fit", restart(where))
        arrays = mapped_tensors(path)
        if not mapped:
            arrays = {name: np.array(part) for name, part in arrays.items()}
    return Checkpoint(stored["round"], arrays, sealed_text.decode_floats(stored["host"]))


def restart(where: Path) -> str:
    return f"start again with 'amsfl run --config {where / CONFIG} --out {where} --force'."


def too_few(where: Path, wanted: int, stored: int) -> DiskError:
    return DiskError(
        f"{str(where / ROUNDS)!r} has {stored} rounds, and there should be {wanted}: {restart(where)}"
    )
