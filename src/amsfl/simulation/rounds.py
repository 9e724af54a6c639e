"""One round, from its plan to its record; again until rounds, seconds or a target end every trial.

Trials run in lockstep, so that the engine has all their clients at once; each has its own time, plan and
end. A plain run is one trial.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from amsfl.core import score
from amsfl.engines import State, metrics
from amsfl.planning import decisions
from amsfl.planning.context import start
from amsfl.record import RoundRecord
from amsfl.simulation import best_round, dispatch
from amsfl.simulation.detailed_scores import ranked
from amsfl.simulation.local_work import RoundResult, follow_verdicts, learn_from, run_rounds, state_after
from amsfl.simulation.plan_round import RoundPlan, allowance, plan_rounds, rounds_at_once
from amsfl.simulation.round_record import simulated_round
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState

Scores = dict[int, dict[str, dict[str, Any]]]  # by trial and split, of those that were evaluated


def rounds(
    setup: RunSetup, state: State, trials: list[TrialState]
) -> Iterator[tuple[State, list[tuple[TrialState, RoundRecord]]]]:
    """Run until every trial has ended; after each move of the server, the state and the trials' records."""
    at_once = 1
    while running := [trial for trial in trials if trial.status == "running"]:
        started = time.perf_counter()
        plans = plan_rounds(setup, running, at_once)  # who works how much: planning/, event_queue.py
        states, results = run_rounds(setup, state, plans)  # local steps and the server's move: engines/
        for plan, result in zip(plans, results, strict=True):
            learn_from(setup, plan, result)  # what readings say of the next plan: planning/
        if setup.method.judges:
            states = follow_verdicts(setup, states, plans[-1])  # back to a better model: drift/judge.py
        scores = evaluate(setup, states, plans)
        wall = (time.perf_counter() - started) / len(plans)
        at_once = rounds_at_once(setup, running, wall)
        for nth, (plan, result, scored) in enumerate(zip(plans, results, scores, strict=True)):
            state = state_after(setup, states, nth)
            working = [trial for trial in running if trial.index in plan]
            for trial in working:
                if trial is not plan[trial.index].after:  # it was planned on a copy
                    trial.catch_up(plan[trial.index].after)
            end_trials(setup, state, working, plan, result, scored)
            wall_each = wall / len(working)
            yield state, [(t, simulated_round(setup, t, plan, result, scored, wall_each)) for t in working]
            if any(trial.status != plan[trial.index].after.status for trial in working):
                break  # what was planned for those who ended is not to happen


def begin(setup: RunSetup) -> tuple[State, list[TrialState]]:
    clients = setup.task.shards.size.shape[1]
    trials = [
        TrialState(index, seed, start(context), steps=[0] * clients)
        for index, (seed, context) in enumerate(zip(setup.task.seeds, setup.contexts, strict=True))
    ]
    return setup.engine.start(), trials


def rehearse(setup: RunSetup, trial: TrialState) -> None:
    """Plan the first round and throw the plan away: a budget too small is said before a folder is made."""
    allowed = allowance(setup, trial)
    cohort = dispatch.draw_clients(setup, trial, allowed)
    request = dispatch.plan_request(setup, trial, cohort, allowed)
    decisions.decide([setup.contexts[trial.index]], [request])


def evaluate(setup: RunSetup, states: Any, plans: list[RoundPlan]) -> list[Scores]:
    """Of every round, every split's metrics of the trials that are due: as often as asked, and at the end."""
    count, often = len(setup.configs), setup.config.eval_every
    scores: list[Scores] = []
    places: dict[str, list[tuple[int, int]]] = {split: [] for split in setup.task.evals}
    for nth, plan in enumerate(plans):
        trials = [each.after for each in plan.values()]
        due = [trial for trial in trials if trial.round % often == 0 or trial.status != "running"]
        scores.append({trial.index: {} for trial in due})
        rare = bool(due) and due[0].round % (often * setup.config.test_every) == 0
        for split, some in places.items():
            now = [t for t in due if split == "holdout" or rare or t.status != "running"]
            some += [(nth, trial.index) for trial in now]
    models: Any = setup.engine.models(states) if any(places.values()) else None
    for split, some in places.items():
        if not some:
            continue
        sums = setup.engine.evaluate(models, split, [nth * count + index for nth, index in some])
        for (nth, index), each in zip(some, metrics(sums), strict=True):
            scores[nth][index][split] = each
            if setup.score.ranks:
                model = setup.engine.models_to_host(models[nth * count + index])
                scores[nth][index][split] |= ranked(setup, model, split)
    return scores


def end_trials(
    setup: RunSetup,
    state: State,
    trials: list[TrialState],
    plan: RoundPlan,
    result: RoundResult,
    scores: Scores,
) -> None:
    """Targets reached, divergence noticed, and clients' own models scored where a trial ends."""
    for trial in trials:
        config = setup.configs[trial.index]
        if trial.index not in scores:
            continue
        holdout = scores[trial.index]["holdout"]
        if not np.isfinite(holdout["loss"]):
            trial.status = "diverged"
            continue
        worth = best_round.worth(holdout, config.judge_by, setup.score)
        if best_round.judge(trial, worth, config.stop_after):
            trial.status = "finished"
        if trial.reached is None and config.target is not None and setup.score.met(holdout, config.target):
            trial.reached = {**trial.seconds, **trial.spent, "rounds": trial.round}
            if config.stop_at_target:
                trial.status = "finished"
        if trial.status == "finished" and result.deltas is not None:
            models = setup.engine.client_models(state, result.deltas, trial.index)
            trial.local = _score_locally(setup, models, len(plan[trial.index].cohort))


def _score_locally(setup: RunSetup, models: Any, cohort: int) -> dict[str, list[float | None]]:
    """ACC_Ci of the paper (R² of numbers): client i's own model after its steps, on the global splits."""
    usual = score("", setup.data.classes)
    return {
        split: [usual.of(each) for each in metrics(setup.engine.evaluate(models, split))[:cohort]]
        for split in setup.task.evals
    }
