"""A study in blocks of one method and up to ten trials, in a folder: what is on record is not run again."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from amsfl import clock
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.data import Dataset
from amsfl.engines.devices import on_cpu
from amsfl.record import Lock, Manifest, RoundRecord, StudyWriter, TrialRecord, folder
from amsfl.record import study as on_disk
from amsfl.record.folder import lock_for_writer
from amsfl.simulation import CustomParts, provenance, run_batch
from amsfl.simulation.components import client_names, federation_of
from amsfl.study.settings import CHUNK, Study

FREE = ("trials", "title", "reference")  # what may change when a study goes on
METRICS = ("accuracy", "macro_f1", "r2", "mae", "rmse")  # of a round; the summary has the last one's whole
UNASKED = ("predicted_seconds", "readings", "wall", "mix", "weighed", "epsilon")
TrialBlock = tuple[str, tuple[int, ...]]  # a method's entry, and trials of it
Watch = Callable[[TrialBlock, int, RoundRecord], None]  # block, place in the block, the round


def blocks_of(study: Study) -> list[TrialBlock]:
    """Blocks of trials are outermost: a study stopped half-way has all methods side by side. They begin at
    multiples of ten and are saved whole, so a study that was stopped and continued is made of the same
    batches as one that was not. A GPU takes fifty as fast.
    """
    most = CHUNK if on_cpu() else 5 * CHUNK
    ranges = [range(first, min(first + most, study.trials)) for first in range(0, study.trials, most)]
    return [(entry, tuple(trials)) for trials in ranges for entry in study.methods]


def pending(home: StudyWriter, study: Study) -> list[TrialBlock]:
    """What is left of it."""
    done = {entry: {trial.trial for trial in home.finished(entry)} for entry in study.methods}
    left = (
        (entry, tuple(trial for trial in trials if trial not in done[entry]))
        for entry, trials in blocks_of(study)
    )
    return [(entry, trials) for entry, trials in left if trials]


def run_blocks(
    home: StudyWriter,
    study: Study,
    dataset: Dataset,
    blocks: list[TrialBlock],
    watch: Watch = lambda *_: None,
) -> Iterator[TrialBlock]:
    """Run the blocks one by one; each is on the disk when it is yielded."""
    for entry, trials in blocks:
        config, own = study.config(entry), CustomParts(dataset=dataset)
        configs = [config.model_copy(update={"seed": study.seed + trial}) for trial in trials]
        results = run_batch(configs, own, partial(watch, (entry, trials)))
        key = results[0].parts.score.key
        found = [
            TrialRecord(entry, trial, one.summary, [trimmed(each, key) for each in one.rounds])
            for trial, one in zip(trials, results, strict=True)
        ]
        home.save(entry, found)
        yield entry, trials


def open_folder(where: Path, study: Study, dataset: Dataset, force: bool = False) -> StudyWriter:
    """Make or reopen a study's folder; nobody else writes there until it is closed.

    One with other settings is left alone unless `force`.
    """
    fresh = manifest(study, dataset)
    with lock_for_writer(where) as lock:
        old = folder.check_free(where, (on_disk.SETTINGS, on_disk.TRIALS), ["study"], True)
        if old is None:
            return on_disk.create(where, fresh, lock)
        changed = differences(old.settings, fresh.settings) + differences(old.made_from, fresh.made_from)
        if not force:
            _refuse_changes(where, changed)
        if changed:
            return on_disk.create(where, fresh, lock)
        writer = StudyWriter(where, lock)
        trials = max(fresh.settings["trials"], old.settings["trials"])
        writer.change(fresh.settings | {"trials": trials}, fresh.machine)
        return writer


def check_folder(where: Path, study: Study, dataset: Dataset, force: bool = False) -> None:
    """Raise what `open_folder` would raise, before a search, on whose outcome that does not depend."""
    with Lock(where):
        old = folder.check_free(where, (on_disk.SETTINGS, on_disk.TRIALS), ["study"], True)
    if old is not None and not force:
        fresh = manifest(study, dataset)
        _refuse_changes(where, differences(_unsearched(old.settings), _unsearched(fresh.settings)))
        _refuse_changes(where, differences(old.made_from, fresh.made_from))


def _unsearched(settings: Json) -> Json:
    """The settings without those that a search decides."""
    entries = {
        entry: {key: value for key, value in (settings["run"] | own).items() if key not in ("lr", "steps")}
        for entry, own in settings["methods"].items()
    }
    return {key: value for key, value in settings.items() if key not in ("searched", "run")} | {
        "methods": entries
    }


def _refuse_changes(where: Path, changed: list[str]) -> None:
    if changed:
        raise UserError(
            f"The folder {str(where)!r} holds a study with other settings ({'; '.join(changed[:3])}); "
            "choose another --out, or start it anew with --force."
        )


def recorded_search(where: Path) -> Json:
    """What a search found for the study that this folder holds, if it holds one."""
    if not folder.holds_record(where):
        return {}
    return dict(folder.read_manifest(where, "study").settings.get("searched", {}))


def manifest(study: Study, dataset: Dataset) -> Manifest:
    settings, made = described(study, dataset), provenance.of_data(dataset)
    for entry in study.methods:
        made |= provenance.of_files(study.config(entry))
    return Manifest(
        kind="study",
        settings=settings,
        methods={
            entry: provenance.of_method(federation_of(study.config(entry), CustomParts()).method)
            for entry in study.methods
        },
        made_from=made,
        machine=provenance.versions(),
    )


def described(study: Study, dataset: Dataset) -> Json:
    """study.toml: every setting of every method as it was run, the data, and how fast the clients are."""
    configs = {entry: study.config(entry).model_dump(exclude_none=True) for entry in study.methods}
    first = next(iter(configs.values()))
    shared = {
        key: value for key, value in first.items() if all(c.get(key) == value for c in configs.values())
    }
    names = client_names(study.config(next(iter(study.methods))), dataset)
    speeds = clock.profile(first["profile"], len(names) or first["clients"], study.seed, names)
    return {
        "title": study.title,
        "kind": study.kind,
        "trials": study.trials,
        "seed": study.seed,
        "reference": study.reference,
        **provenance.about(dataset, speeds, names),
        "run": shared,
        "methods": {
            entry: {key: value for key, value in settings.items() if key not in shared}
            for entry, settings in configs.items()
        },
        **({"searched": study.searched} if study.searched else {}),
    }


def trimmed(record: RoundRecord, score: str = "accuracy") -> RoundRecord:
    """Without what no report asks for; `score` is kept beside the usual ones: it may be of one class."""
    took = () if record.started else record.plan.get("client_seconds", ())
    kept = record._replace(
        metrics={
            split: {name: scores[name] for name in (*METRICS, score) if name in scores}
            for split, scores in record.metrics.items()
        },
        started=_rounded(record.started),
        arrived=_rounded(record.arrived),
        plan={"client_seconds": _rounded(took)} if took else {},
        **{name: RoundRecord._field_defaults[name] for name in UNASKED},
    )
    # elsewhere clients begin and end with the round
    return kept if record.started else kept._replace(round_seconds={})


def _rounded(seconds: Sequence[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in seconds]


def differences(old: Json, new: Json, path: tuple[str, ...] = ()) -> list[str]:
    """`run.lr: 0.05, now 0.1` for every setting that matters to the numbers and is not the same."""
    changes = []
    for key in sorted(old.keys() | new.keys()):
        if key == "note" or (not path and key in FREE):
            continue
        was, now = old.get(key), new.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            changes += differences(was, now, (*path, key))
        elif was != now:
            changes.append(f"{'.'.join((*path, key))}: {was!r}, now {now!r}")
    return changes
