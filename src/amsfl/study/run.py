"""Work through a study in units of one method and up to ten trials; what is on record is never run again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from amsfl.core import score
from amsfl.data import Dataset
from amsfl.federation import run_trials
from amsfl.federation.audience import begun
from amsfl.record import RoundRecord, StudyWriter
from amsfl.study import store
from amsfl.study.settings import CHUNK, Study
from amsfl.track import Begun, Given, Told, make, tracking

TRACKED = "tracked"  # of a study's folder: what trackers keep beside the record
Watch = Callable[["Unit", int, RoundRecord], None]  # unit, place in the unit, the round


class Unit(NamedTuple):
    entry: str
    trials: tuple[int, ...]


def start(folder: Path, study: Study, dataset: Dataset, force: bool = False) -> StudyWriter:
    """Make the folder, or check that it is this study's; nobody else writes there until it is closed."""
    return store.create(folder, study, dataset, force)


def pending(home: StudyWriter, study: Study) -> list[Unit]:
    """What is left, blocks of trials outermost: a study stopped half-way has all methods side by side.

    Blocks begin at multiples of ten and are saved whole, so a study that was stopped and continued
    is made of the same batches as one that was not.
    """
    done = {entry: {trial.trial for trial in home.finished(entry)} for entry in study.methods}
    units = []
    for first in range(0, study.trials, CHUNK):
        for entry in study.methods:
            block = range(first, min(first + CHUNK, study.trials))
            left = tuple(trial for trial in block if trial not in done[entry])
            units += [Unit(entry, left)] if left else []
    return units


def work(
    home: StudyWriter,
    study: Study,
    dataset: Dataset,
    units: list[Unit],
    watch: Watch | None = None,
    track: Given = None,
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


def _begun(home: StudyWriter, study: Study, unit: Unit, trial: int) -> Begun:
    config = study.config(unit.entry).model_copy(update={"seed": study.seed + trial})
    return begun(config, home.where / TRACKED / unit.entry / str(trial), unit.entry)


def _watcher(
    home: StudyWriter, unit: Unit, watch: Watch | None, told: Sequence[Told], key: str
) -> Callable[[int, RoundRecord], None]:
    def watcher(place: int, record: RoundRecord) -> None:
        home.running(unit.entry, unit.trials[place], store.seen(record, key))
        if told:
            told[place].on_round(record)
        if watch:
            watch(unit, place, record)

    return watcher
