"""Work through a study in units of one method and up to ten trials; what is on record is never run again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from amsfl.core import UserError, score
from amsfl.data import Dataset
from amsfl.record import RoundRecord, StudyWriter
from amsfl.simulation import run_trials
from amsfl.simulation.observers import begun
from amsfl.study import store
from amsfl.study.settings import CHUNK, Study
from amsfl.track import RunCallbacks, RunInfo, TrackerSpec, make, tracking

TRACKED = "tracked"  # of a study's folder: what trackers keep beside the record
Watch = Callable[["Unit", int, RoundRecord], None]  # unit, place in the unit, the round


class Unit(NamedTuple):
    entry: str
    trials: tuple[int, ...]


class Part(NamedTuple):
    number: int  # from 1
    of: int


WHOLE = Part(1, 1)


def part_of(text: str) -> Part:
    """`3/8` is the third of eight parts; nothing is all of it."""
    if not text:
        return WHOLE
    number, slash, of = text.partition("/")
    if not (slash and number.isascii() and number.isdigit() and of.isascii() and of.isdigit()):
        raise UserError(f"--part {text!r} is no part; write --part 3/8 for the third of eight.")
    if not 1 <= int(number) <= int(of):
        raise UserError(f"--part {text}: parts of {of} are numbered from 1 to {of}.")
    return Part(int(number), int(of))


def start(folder: Path, study: Study, dataset: Dataset, force: bool = False) -> StudyWriter:
    """Make the folder, or check that it is this study's; nobody else writes there until it is closed."""
    return store.create(folder, study, dataset, force)


def units_of(study: Study, part: Part = WHOLE) -> list[Unit]:
    """A study's units, or those of a part of it: every so many, so that parts have all methods and blocks.

    Blocks of trials are outermost: a study stopped half-way has all methods side by side. They begin at
    multiples of ten and are saved whole, so a study that was stopped and continued, or cut into parts, is
    made of the same batches as one that was not.
    """
    blocks = [range(first, min(first + CHUNK, study.trials)) for first in range(0, study.trials, CHUNK)]
    units = [Unit(entry, tuple(block)) for block in blocks for entry in study.methods]
    if part.of > len(units):
        raise UserError(
            f"--part {part.number}/{part.of}: the study has {len(units)} units of work (one method and up to "
            f"{CHUNK} trials each), so it can be cut into {len(units)} parts at most."
        )
    return units[part.number - 1 :: part.of]


def pending(home: StudyWriter, study: Study, part: Part = WHOLE) -> list[Unit]:
    """What is left of it."""
    done = {entry: {trial.trial for trial in home.finished(entry)} for entry in study.methods}
    left = (
        Unit(unit.entry, tuple(trial for trial in unit.trials if trial not in done[unit.entry]))
        for unit in units_of(study, part)
    )
    return [unit for unit in left if unit.trials]


def work(
    home: StudyWriter,
    study: Study,
    dataset: Dataset,
    units: list[Unit],
    watch: Watch | None = None,
    track: TrackerSpec = None,
) -> Iterator[Unit]:
    """Run the units one by one; each is on the disk when it is yielded. Trackers have a run a trial."""
    trackers = make(track)
    for unit in units:
        config = study.config(unit.entry)
        with ExitStack() as stack:
            told = [
                stack.enter_context(tracking(trackers, _begun(home, study, unit, trial)))
                for trial in unit.trials
                if trackers
            ]
            results = run_trials(
                config,
                [study.seed + trial for trial in unit.trials],
                study.own(unit.entry)._replace(dataset=dataset),
                _watcher(home, unit, watch, told, score(config.score, dataset.classes).key),
            )
            home.save(
                unit.entry, [store.kept(unit.entry, t, r) for t, r in zip(unit.trials, results, strict=True)]
            )
            for each, result in zip(told, results, strict=False):
                each.on_end(result.summary)
        yield unit


def _begun(home: StudyWriter, study: Study, unit: Unit, trial: int) -> RunInfo:
    config = study.config(unit.entry).model_copy(update={"seed": study.seed + trial})
    return begun(config, home.where / TRACKED / unit.entry / str(trial), unit.entry)


def _watcher(
    home: StudyWriter, unit: Unit, watch: Watch | None, told: Sequence[RunCallbacks], key: str
) -> Callable[[int, RoundRecord], None]:
    def watcher(place: int, record: RoundRecord) -> None:
        home.running(unit.entry, unit.trials[place], store.seen(record, key))
        if told:
            told[place].on_round(record)
        if watch:
            watch(unit, place, record)

    return watcher
