"""A folder checked whole: format, checksums, settings, rounds; and what can be saved of a damaged one."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.record import disk, folder, outputs, parts, study
from amsfl.record import run_reader as run
from amsfl.record.lock import holder
from amsfl.record.schema import Manifest


class FileCheck(NamedTuple):
    what: str
    good: bool
    said: str


class Verification(NamedTuple):
    kind: str  # run, flower, study, report
    findings: list[FileCheck]

    @property
    def good(self) -> bool:
        return all(check.good for check in self.findings)


def verify(where: str | Path) -> Verification:
    """Every file that is ours; a damaged one does not keep the next from being looked at.

    Args:
        where: A folder of a run, study or report.

    Returns:
        What is whole, what is damaged, what can be saved.
    """
    where = Path(where)
    if not where.is_dir():
        raise UserError(f"There is no folder {str(where)!r}.")
    kind, findings = "report", list[FileCheck]()
    if parts.holds_parts(where):
        kind, findings = "study", list(_parts(where))
    elif folder.holds_record(where) or not disk.exists(where / outputs.LISTED):
        manifest = folder.read_manifest(where)
        kind = manifest.kind
        findings = [FileCheck(folder.MANIFEST, True, _of(manifest))]
        if who := holder(where):
            busy = f"it is being written by {who}: what follows may be between two files"
            findings.append(FileCheck("lock", True, busy))
        findings += _record(where, manifest)
    if disk.exists(where / outputs.LISTED):
        findings.append(_look("report", lambda: _report(where)))
    return Verification(kind, findings)


def _of(manifest: Manifest) -> str:
    made = [f"{key} {manifest.made_from[key]}" for key in ("data", "model") if key in manifest.made_from]
    said = [f"a {manifest.kind} of format {manifest.format} by amsfl {manifest.version}", *made]
    return ", ".join(said + [_change(change) for change in manifest.changed])


def _change(change: Json) -> str:
    """As in `changed after round 8: rounds 8, now 12`."""
    pairs = ((name, value) for name, value in change.items() if name != "round")
    settings = [f"{name} {was}, now {now}" for name, (was, now) in pairs]
    since = f" after round {change['round']}" if "round" in change else ""
    return f"changed{since}: {'; '.join(settings)}"


def _look(what: str, check: Callable[[], str]) -> FileCheck:
    try:
        return FileCheck(what, True, check())
    except UserError as bad:
        return FileCheck(what, False, str(bad))


def _record(where: Path, manifest: Manifest) -> Iterator[FileCheck]:
    again = "the study's command" if manifest.kind == "study" else f"'amsfl resume {where}'"
    if manifest.replaces:
        yield FileCheck("files", True, f"just begun; {again} clears up and goes on")
        return
    there = "the settings of the study" if manifest.kind == "study" else "the settings it was run with"
    texts = there, f"not there; {again} writes it again"
    settings = folder.SETTINGS[manifest.kind]
    yield _look(settings, lambda: texts[folder.read_settings(where, manifest) is None])
    if manifest.kind != "study":
        yield from _run(where, manifest)
        return
    for entry in manifest.methods:
        yield _look(entry, partial(_entry, where, manifest, entry))


def _run(where: Path, manifest: Manifest) -> Iterator[FileCheck]:
    lines = run.lines(where, manifest)
    whole, point = len(lines.rows), None

    def checkpoint() -> str:
        nonlocal point
        point = run.load_checkpoint(where, manifest)
        return f"the model after round {point.round}" if point else "none yet: resume begins with round 1"

    yield _look(run.POINTER, checkpoint)
    yield _look(run.ROUNDS, lambda: _rounds(where, lines.bad, whole, point.round if point else 0))
    yield _look(run.SUMMARY, lambda: _summary(where, manifest, whole))
    if disk.exists(where / run.SUMMARY):
        yield _look("model", lambda: _models(where, manifest))


def _rounds(where: Path, bad: str, whole: int, saved: int) -> str:
    if whole < saved:
        bad = f"{bad}; " if bad else ""
        said = f"{whole} whole rounds, and the checkpoint is of round {saved}"
        raise UserError(f"{bad}{said}: {run.restart(where)}")
    if bad:
        then = f"the rounds up to the checkpoint are whole, 'amsfl resume {where}' runs the others again"
        raise UserError(f"{bad}; {then}")
    return f"{whole} rounds"


def _summary(where: Path, manifest: Manifest, rounds: int) -> str:
    summary = run.read_summary(where, manifest)
    if summary is None:
        return f"none: the run has not ended; go on with 'amsfl resume {where}'"
    if summary.rounds != rounds:
        raise UserError(f"It tells of {summary.rounds} rounds, and {rounds} whole ones are on record.")
    return f"{summary.status} after {summary.rounds} rounds"


def _models(where: Path, manifest: Manifest) -> str:
    summary = run.read_summary(where, manifest)
    names = run.check_models(where, summary) if summary else []
    stray = [name for name in run.MODELS if name not in names and disk.exists(where / name)]
    if stray:
        raise UserError(f"{stray[0]} is not of this run: remove it.")
    return f"the model that leaves: {', '.join(names)}" if names else "none"


def _parts(where: Path) -> Iterator[FileCheck]:
    """Each part as the study that it is, then whether they are parts of one."""
    for path in parts.parts(where):
        for check in verify(path).findings:
            yield check._replace(what=f"part {path.name}, {check.what}")
    yield _look(
        "all parts", lambda: f"{sum(map(len, parts.read_study(where).trials.values()))} trials of one study"
    )


def _entry(where: Path, manifest: Manifest, entry: str) -> str:
    return f"{len(study.read_entry(where, manifest, entry))} of {manifest.settings.get('trials')} trials"


def _report(where: Path) -> str:
    bad = outputs.changed(where)
    if bad:
        raise UserError(f"changed or gone: {', '.join(bad)}; 'amsfl report' makes it again.")
    return "as it was written"
