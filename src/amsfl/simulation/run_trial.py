"""One trial driven to its end: rounds written as they come, checkpoints, and back from one."""

import time
from typing import NamedTuple

from amsfl import worth
from amsfl.core.scores import judged_by
from amsfl.engines import State
from amsfl.planning.memory import PlannerMemory
from amsfl.record import Checkpoint, RoundRecord, RunWriter
from amsfl.simulation.detailed_scores import detailed_scores
from amsfl.simulation.event_queue import EventQueue
from amsfl.simulation.interrupt import stoppable
from amsfl.simulation.observers import Observers
from amsfl.simulation.result import Best, Result, kept, model_files
from amsfl.simulation.rounds import models_of, rounds
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.summary import summarise
from amsfl.simulation.trial import TrialState

TABLE = "queue."  # in a checkpoint: what is under way


class TrialStart(NamedTuple):
    """Where a trial goes on from: its beginning, or a checkpoint."""

    state: State
    trial: TrialState
    done: list[RoundRecord]
    best: Best | None = None


def run_trial(setup: RunSetup, start: TrialStart, writer: RunWriter | None, hooks: Observers) -> Result:
    """Run a trial to its end; every round is recorded, and its observers hear of it, as it comes."""
    state, trial, done, best = start
    started = time.perf_counter() - sum(each.wall.get("seconds", 0.0) for each in done)
    with stoppable() as interrupted:
        for state, news in rounds(setup, state, [trial]):  # noqa: B020 (the state moves on)
            fresh = news[0][1]
            done.append(fresh)
            if trial.best_score is not None and trial.best_round == fresh.round:
                larger = judged_by(fresh.metrics["holdout"], setup.judge_by, setup.score)[1]
                shown = trial.best_score if larger else -trial.best_score
                best = Best(fresh.round, shown, models_of(setup, state)[0])
            stop = interrupted.is_set() and trial.status == "running"
            due = stop or trial.round % setup.config.checkpoint_every == 0 or trial.status != "running"
            # all processes that share a model have to be there when it is brought together
            whole = (
                setup.engine.to_host(state) if due and (writer or setup.engine.needs_all_processes) else None
            )
            if writer:
                writer.append(fresh)
                if whole:
                    arrays, best_facts = kept(best)
                    arrays |= whole._asdict()
                    arrays |= {TABLE + name: part for name, part in trial.queue.table.items()}
                    arrays |= worth.as_arrays(trial)
                    own = {"memory": trial.memory.dump(), "queue": trial.queue.dump()}
                    host = vars(trial) | own | dict.fromkeys(worth.FIELDS) | best_facts
                    writer.checkpoint(Checkpoint(trial.round, arrays, host))
            for hear in hooks.on_round:
                hear(fresh)
            if stop:
                raise KeyboardInterrupt
    params = models_of(setup, state)[0]
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
    own["queue"] = EventQueue.load(own["queue"], point.under(TABLE))
    return TrialState(**own | worth.from_checkpoint(point))
