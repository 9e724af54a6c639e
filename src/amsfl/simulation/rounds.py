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
from amsfl.planning.context import RoundReadings, start
from amsfl.planning.learning import learn
from amsfl.record import RoundRecord
from amsfl.simulation import contributions, dispatch, stale_work
from amsfl.simulation.detailed_scores import ranked
from amsfl.simulation.plan_round import RoundPlan, plan_rounds, rounds_at_once
from amsfl.simulation.round_record import RoundResult, TrialResult, result_by_trial, simulated_round
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState

Scores = dict[int, dict[str, Json]]  # by trial and split, of those that were evaluated


def rounds(
    setup: RunSetup, state: State, trials: list[TrialState]
) -> Iterator[tuple[State, list[tuple[TrialState, RoundRecord]]]]:
    """Run until every trial has ended; yield the state and trials' records after each move of the server."""
    at_once = 1
    while running := [trial for trial in trials if trial.status == "running"]:
        started = time.perf_counter()
        plans = plan_rounds(setup, running, at_once)  # who works how much: planning/, event_queue.py
        states, results = run_rounds(setup, state, plans)  # local steps and the server's move: engines/
        if setup.learns:  # what readings say of the next plan: planning/
            for plan, result in zip(plans, results, strict=True):
                learn_from(setup, plan, result)
        if setup.judges:
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
            if setup.config.worth:  # whose uploads moved the model: contributions.py
                contributions.follow(setup, state, working, plan, result)
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


def run_rounds(setup: RunSetup, state: State, plans: list[RoundPlan]) -> tuple[State, list[RoundResult]]:
    """The states after these rounds, in the engine's own form (see `state_after`), and their results."""
    if setup.looks_ahead:
        first = next(iter(plans[0].values())).version
        orders = [make_orders(setup, plan, first + nth) for nth, plan in enumerate(plans)]
        states, outcomes = setup.engine.span(state, orders, first, keep=_keeps_uploads(setup))
        return states, [result_by_trial(setup, *each) for each in zip(outcomes, plans, strict=True)]
    state, result = _run_round(setup, state, plans[0])
    return state, [result]


def state_after(setup: RunSetup, states: State, nth: int) -> State:
    """The state after one of the rounds of `run_rounds`."""
    return setup.engine.at(states, nth) if setup.looks_ahead else states


def _run_round(setup: RunSetup, state: State, plan: RoundPlan) -> tuple[State, RoundResult]:
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
    lr, rate_known, cut, correction = np.ones((4, shape[0]))
    for index, each in plan.items():
        count, rate = len(each.cohort), each.decision.lr
        cohort[index, :count], steps[index, :count] = each.cohort, each.decision.steps
        lr[index], rate_known[index] = (each.decision.part, 0.0) if rate is None else (rate, 1.0)
        cut[index], correction[index] = each.decision.cut, each.decision.correction
    weights = np.take_along_axis(setup.weights, cohort, axis=1)
    orders = Orders(cohort, steps, lr, weights, rate_known, cut, correction)
    if setup.method.private_clients is not None:
        drawn = [dispatch.draw_by_chance(setup, seed, number) for seed in setup.task.seeds]
        present = np.stack([np.isin(who, some) for who, some in zip(cohort, drawn, strict=True)])
        orders = orders._replace(weights=weights * (present & (steps > 0)), largest=setup.weights.max(1))
    if not setup.attackers.attacks:
        return orders
    seeds = zip(setup.task.seeds, cohort, strict=True)
    words = np.stack([setup.attackers.words(seed, number, who) for seed, who in seeds])
    forging = setup.attackers.forging(number, np.arange(shape[0])[:, None], cohort)
    return orders._replace(attackers=forging, words=words)


def learn_from(setup: RunSetup, plan: RoundPlan, result: RoundResult) -> None:
    """Update every trial's planner memory from its round's readings."""
    readings = [
        RoundReadings(
            each.after.memory,
            each.cohort,
            each.decision,
            setup.attackers.report(index, each.cohort, result.by_trial[index].reading),  # as clients report
            result.by_trial[index].agreement,
        )
        for index, each in plan.items()
    ]
    memories = learn([setup.contexts[index] for index in plan], readings)
    for each, memory in zip(plan.values(), memories, strict=True):
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


def evaluate(setup: RunSetup, states: State, plans: list[RoundPlan]) -> list[Scores]:
    """For every round the metrics of trials that are due, by split: as often as set, and at the end."""
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
    models: Array = setup.engine.models(states) if any(places.values()) else None
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
