"""How long it will take: from the trials on record, else from a few timed rounds of the first unit."""

import time

from amsfl.data import Dataset
from amsfl.record import StudyWriter
from amsfl.simulation import RunConfig, run_trials
from amsfl.study.run import Unit
from amsfl.study.settings import Study

PROBE = 4  # rounds; the first one compiles


def estimate(home: StudyWriter, study: Study, dataset: Dataset, units: list[Unit]) -> float:
    """Wall seconds the units will need. A guess: it knows neither plans nor what else the machine does."""
    known: dict[str, list[float]] = {
        entry: [trial.wall["seconds"] or 0.0 for trial in home.finished(entry)] for entry in study.methods
    }
    walls = [wall for some in known.values() for wall in some]
    if walls:
        mean = {entry: sum(some or walls) / len(some or walls) for entry, some in known.items()}
        return sum(mean[unit.entry] * len(unit.trials) for unit in units)
    return _probed(study, dataset, units) if units else 0.0


def _probed(study: Study, dataset: Dataset, units: list[Unit]) -> float:
    """Compiling once a method, plus rounds at the first unit's pace a trial."""
    first = units[0]
    config = study.config(first.entry).model_copy(
        update={"rounds": PROBE, "seconds": None, "local_accuracy": False, "details": False}
    )
    ticks = [time.perf_counter()]
    results = run_trials(
        config,
        [study.seed + trial for trial in first.trials],
        study.own(first.entry)._replace(dataset=dataset),
        lambda *_: ticks.append(time.perf_counter()),
    )
    trials = len(first.trials)
    pace = (ticks[-1] - ticks[trials]) / (PROBE - 1) / trials
    compiling = ticks[trials] - ticks[0]
    own_round = results[0].rounds[-1].round_seconds[config.clock]
    total = 0.0
    for unit in units:
        rounds = _rounds(study.config(unit.entry), own_round)
        total += len(unit.trials) * rounds * pace
    return total + compiling * len({unit.entry for unit in units})


def _rounds(config: RunConfig, probed_round: float) -> float:
    by_time = config.seconds / probed_round if config.seconds else float("inf")
    return min(by_time, config.rounds or float("inf"))
