"""One trial driven to its end: rounds written as they come, checkpoints, and back from one."""

import time
from typing import NamedTuple

import numpy as np

from amsfl import worth
from amsfl.core.scores import judged_by
from amsfl.engines import Models
from amsfl.planning.memory import PlannerMemory
from amsfl.record import Checkpoint, RoundRecord, RunWriter
from amsfl.simulation.detailed_scores import detailed_scores
from amsfl.simulation.event_queue import EventQueue
from amsfl.simulation.interrupt import stoppable
from amsfl.simulation.observers import Observers
from amsfl.simulation.result import Best, Result, kept, model_files
from amsfl.simulation.rounds import model_of, together
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.summary import summarise
from amsfl.simulation.trial import TrialState, Vectors

OLDER = "older."  # models in a checkpoint that work under way began from


class TrialStart(NamedTuple):
    """Where a trial goes on from: its beginning, or a checkpoint."""

    trial: TrialState
    done: list[RoundRecord]
    best: Best | None = None


def run_trial(setup: RunSetup, start: TrialStart, writer: RunWriter | None, hooks: Observers) -> Result:
    """Run a trial to its end; every round is recorded, and its observers hear of it, as it comes."""
    trial, done, best = start
    started = time.perf_counter() - sum(each.wall.get("seconds", 0.0) for each in done)
    with stoppable() as interrupted:
        for ((_, fresh),) in together(setup, [trial]):
            done.append(fresh)
            if trial.best_score is not None and trial.best_round == fresh.round:
                larger = judged_by(fresh.metrics["holdout"], setup.score, setup.by_loss)[1]
                shown = trial.best_score if larger else -trial.best_score
                best = Best(fresh.round, shown, model_of(setup, trial))
            stop = interrupted.is_set() and trial.status == "running"
            due = stop or trial.round % setup.config.checkpoint_every == 0 or trial.status != "running"
            if writer:
                writer.append(fresh)
                if due:
                    arrays, best_facts = kept(best)
                    arrays |= trial.vectors._asdict()
                    for version, models in trial.queue.models.items():
                        arrays |= {f"{OLDER}{version}.{key}": part for key, part in models._asdict().items()}
                    arrays |= worth.as_arrays(trial)
                    own = {"memory": trial.memory.dump(), "queue": trial.queue.dump()}
                    host = vars(trial) | own | dict.fromkeys(worth.FIELDS) | best_facts
                    del host["vectors"]
                    writer.checkpoint(Checkpoint(trial.round, arrays, host))
            for hear in hooks.on_round:
                hear(fresh)
            if stop:
                raise KeyboardInterrupt
    params = model_of(setup, trial)
    wall = time.perf_counter() - started
    summary = summarise(setup, trial, done, wall, params, detailed_scores(setup, [params])[0])
    result = Result(summary, done, params, setup, best)
    if writer:
        writer.end(summary, model_files(result))
    hooks.on_end(summary)
    return result


def load_trial(point: Checkpoint) -> TrialState:
    own = {key: value for key, value in point.host.items() if key != "best"}
    own["memory"] = PlannerMemory.load(own["memory"])
    own["vectors"] = Vectors(*(np.array(point.arrays[name]) for name in Vectors._fields))
    parts = point.under(OLDER)
    versions = {int(name.partition(".")[0]) for name in parts}
    older = {each: Models(*(parts[f"{each}.{name}"] for name in Models._fields)) for each in versions}
    own["queue"] = EventQueue.load(own["queue"], older)
    return TrialState(**own | worth.from_checkpoint(point))
