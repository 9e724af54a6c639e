"""One round, from its plan to its record; again until rounds, seconds or a target end every trial.

Trials run in lockstep, so that the engine has all their clients at once; each has its own time, plan and
end. A plain run is one trial.
"""

import time
from collections.abc import Iterator

import numpy as np

from amsfl.core import score
from amsfl.core.records import Array, Json
from amsfl.core.scores import judge_round, worth
from amsfl.engines import Orders, State, metrics
from amsfl.engines.task import Matrix
from amsfl.planning.memory import start
from amsfl.planning.planner import learn
from amsfl.record import RoundRecord
from amsfl.simulation import contributions, dispatch, stale_work
from amsfl.simulation.detailed_scores import ranked
from amsfl.simulation.plan_round import RoundPlan, plan_rounds
from amsfl.simulation.round_record import RoundResult, TrialResult, result_by_trial, simulated_round
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState

Scores = dict[int, dict[str, Json]]  # by trial and split, of those that were evaluated


def rounds(
    setup: RunSetup, state: State, trials: list[TrialState]
) -> Iterator[tuple[State, list[tuple[TrialState, RoundRecord]]]]:
    """Run until every trial has ended; yield the state and trials' records after each move of the server."""
    while running := [trial for trial in trials if trial.status == "running"]:
        started = time.perf_counter()
        plan = plan_rounds(setup, running)  # who works how much: planning/, event_queue.py
        state, result = run_round(setup, state, plan)  # local steps and the server's move: engines/
        if setup.learns:  # what readings say of the next plan: planning/
            learn_from(setup, plan, result)
        if setup.judges:
            state = follow_verdicts(setup, state, plan)  # back to a better model: planning/judge.py
        scores = evaluate(setup, state, running)
        end_trials(setup, state, running, plan, result, scores)
        if setup.config.worth:  # whose uploads moved the model: contributions.py
            contributions.follow(setup, state, running, plan, result)
        wall = (time.perf_counter() - started) / len(running)
        yield state, [(t, simulated_round(setup, t, plan, result, scores, wall)) for t in running]


def begin(setup: RunSetup) -> tuple[State, list[TrialState]]:
    clients = setup.task.shards.size.shape[1]
    trials = [
        TrialState(index, seed, start(context), steps=[0] * clients)
        for index, (seed, context) in enumerate(zip(setup.task.seeds, setup.contexts, strict=True))
    ]
    return setup.engine.start(), trials


def run_round(setup: RunSetup, state: State, plan: RoundPlan) -> tuple[State, RoundResult]:
    """The state after this round, in the engine's own form, and what the round came to."""
    for index, each in plan.items():
        if len(each.after.queue.jobs) or len(each.after.queue.arrived):
            stale_work.remember(setup, state, index, each)
    whole = {index: each for index, each in plan.items() if each.move.whole}
    others = {index: each for index, each in plan.items() if index not in whole}
    settled: dict[int, TrialResult] = {}
    if others:
        state = stale_work.on_host(state)
        stale_work.compute(setup, state, others)
        settled = {index: stale_work.settle(setup, state, index, each) for index, each in others.items()}
    if not whole:
        return state, RoundResult(settled)
    number = next(iter(whole.values())).version
    if isinstance(state.anchor, np.ndarray):
        state = setup.engine.from_host(state)
    orders = make_orders(setup, whole, number)
    state, outcome = setup.engine.round(state, orders, number, keep=_keeps_uploads(setup))
    together, deltas = result_by_trial(setup, outcome, whole)
    return state, RoundResult(settled | together, deltas)


def _keeps_uploads(setup: RunSetup) -> bool:
    return setup.config.local_accuracy or setup.config.worth


def make_orders(setup: RunSetup, plan: RoundPlan, number: int) -> Orders:
    """The plan as arrays over all trials; trials that have ended get 0 steps, their models stay."""
    shape = (len(setup.configs), setup.cohort)
    cohort, steps = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    lr = np.ones(shape[0])
    for index, each in plan.items():
        count = len(each.cohort)
        cohort[index, :count], steps[index, :count] = each.cohort, each.decision.steps
        lr[index] = each.decision.lr
    weights = np.take_along_axis(setup.weights, cohort, axis=1)
    orders = Orders(cohort, steps, lr, weights)
    if setup.method.private_clients is not None:
        drawn = [dispatch.draw_by_chance(setup, seed, number) for seed in setup.task.seeds]
        present = np.stack([np.isin(who, some) for who, some in zip(cohort, drawn, strict=True)])
        orders = orders._replace(weights=weights * (present & (steps > 0)), largest=setup.weights.max(1))
    if not setup.attackers.attacks:
        return orders
    return orders._replace(attackers=setup.attackers.forging(number, np.arange(shape[0])[:, None], cohort))


def learn_from(setup: RunSetup, plan: RoundPlan, result: RoundResult) -> None:
    """Update every trial's planner memory from its round's readings."""
    for index, each in plan.items():
        told = setup.attackers.report(index, each.cohort, result.by_trial[index].reading)  # as clients report
        memory = learn(setup.contexts[index], each.after.memory, each.cohort, each.decision, told)
        each.after.memory = memory


def follow_verdicts(setup: RunSetup, state: State, plan: RoundPlan) -> State:
    """The state after the judge's verdicts on a round; `learn_from` has made them."""
    verdicts = np.zeros(len(setup.configs), np.int32)
    for index, each in plan.items():
        verdicts[index] = each.after.memory.judge.verdict
    return setup.engine.revise(state, verdicts) if verdicts.any() else state


def models_of(setup: RunSetup, state: State) -> Matrix:
    """The models that are scored and exported, [trials, dim], on the host."""
    return np.asarray(setup.engine.models_to_host(setup.engine.models(state)))


def evaluate(setup: RunSetup, state: State, trials: list[TrialState]) -> Scores:
    """The metrics of trials that are due, by split: as often as set, and at the end."""
    often = setup.config.eval_every
    due = [trial for trial in trials if trial.round % often == 0 or trial.status != "running"]
    scores: Scores = {trial.index: {} for trial in due}
    if not due:
        return scores
    rare = due[0].round % (often * setup.config.test_every) == 0
    models: Array = setup.engine.models(state)
    for split in setup.task.evals:
        now = [t.index for t in due if split == "holdout" or rare or t.status != "running"]
        if not now:
            continue
        for index, each in zip(now, metrics(setup.engine.evaluate(models, split, now)), strict=True):
            scores[index][split] = each
            if setup.score.ranks:
                model = setup.engine.models_to_host(models[index])
                scores[index][split] |= ranked(setup, model, split)
    return scores


def end_trials(
    setup: RunSetup,
    state: State,
    trials: list[TrialState],
    plan: RoundPlan,
    result: RoundResult,
    scores: Scores,
) -> None:
    """Note reached targets, divergence and best rounds; score clients' own models where a trial ends."""
    for trial in trials:
        config = setup.configs[trial.index]
        if trial.index not in scores:
            continue
        holdout = scores[trial.index]["holdout"]
        if not np.isfinite(holdout["loss"]):
            trial.status = "diverged"
            continue
        value = worth(holdout, setup.judge_by, setup.score)
        if judge_round(trial, value, config.stop_after):
            trial.status = "finished"
        if trial.reached is None and config.target is not None and setup.score.met(holdout, config.target):
            trial.reached = {**trial.seconds, **trial.spent, "rounds": trial.round}
            if config.stop_at_target:
                trial.status = "finished"
        if trial.status == "finished" and config.local_accuracy and result.deltas is not None:
            models = setup.engine.client_models(state, result.deltas, trial.index)
            trial.local = _score_locally(setup, models, len(plan[trial.index].cohort))


def _score_locally(setup: RunSetup, models: Array, cohort: int) -> dict[str, list[float | None]]:
    """ACC_Ci of the paper (R² of numbers): client i's own model after its steps, on the global splits."""
    usual = score("", setup.data.classes)
    return {
        split: [usual.of(each) for each in metrics(setup.engine.evaluate(models, split))[:cohort]]
        for split in setup.task.evals
    }
