"""How long it will take: from the trials on record, else from a few timed rounds of the first block."""

import time

from amsfl.data import Dataset
from amsfl.record import StudyWriter
from amsfl.simulation import RunConfig, run_trials
from amsfl.study.run import TrialBlock
from amsfl.study.settings import Study

PROBE = 4  # rounds; the first one compiles


def estimate(home: StudyWriter, study: Study, dataset: Dataset, blocks: list[TrialBlock]) -> float:
    """Wall seconds the blocks will need. A guess: it knows neither plans nor what else the machine does."""
    walls_by_entry = {
        entry: [trial.wall["seconds"] or 0.0 for trial in home.finished(entry)] for entry in study.methods
    }
    walls = [wall for some in walls_by_entry.values() for wall in some]
    if walls:
        mean = {entry: sum(some or walls) / len(some or walls) for entry, some in walls_by_entry.items()}
        return sum(mean[block.entry] * len(block.trials) for block in blocks)
    return _probed(study, dataset, blocks) if blocks else 0.0


def _probed(study: Study, dataset: Dataset, blocks: list[TrialBlock]) -> float:
    """Compiling once a method, plus rounds at the first block's pace a trial."""
    first = blocks[0]
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
    running = sum(
        len(block.trials) * _rounds(study.config(block.entry), own_round) * pace for block in blocks
    )
    return running + compiling * len({block.entry for block in blocks})


def _rounds(config: RunConfig, probed_round: float) -> float:
    by_time = config.seconds / probed_round if config.seconds else float("inf")
    return min(by_time, config.rounds or float("inf"))
