"""The round: plan -> local work -> aggregate -> observe -> record; until rounds, seconds or target say stop.

Trials run in lockstep, so that the engine has all their clients at once; each keeps its own time,
plan and end. A plain run is one trial.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amsfl import clock
from amsfl.core import Reading
from amsfl.engines import Orders, Outcome, State, metrics
from amsfl.federation.planner import Decision, Memory
from amsfl.federation.setup import Parts
from amsfl.methods import Method
from amsfl.record import RoundRecord

Reached = dict[str, float]


@dataclass
class Trial:
    """One trial's host-side state. `host` of a checkpoint is exactly this, less what is derived."""

    index: int
    seed: int
    memory: Memory
    round: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(clock.CLOCKS, 0.0))
    steps: list[int] = field(default_factory=list)
    status: str = "running"
    reached: Reached | None = None  # seconds and rounds at the first evaluation at or above the target
    local: dict[str, list[float]] | None = None  # accuracy of each client's own model, by split


def begin(parts: Parts) -> tuple[State, list[Trial]]:
    clients = parts.task.shards.size.shape[1]
    trials = [
        Trial(index, seed, planner.start(), steps=[0] * clients)
        for index, (seed, planner) in enumerate(zip(parts.task.seeds, parts.planners, strict=True))
    ]
    return parts.engine.start(), trials


def rehearse(parts: Parts, trial: Trial) -> None:
    """Plan the first round and throw the plan away: a budget too small is said before a folder is made."""
    cohort = _cohort(parts, trial.seed, trial.round)
    costs = parts.foes.costs(trial.index, parts.costs[trial.index])
    parts.planners[trial.index].decide(trial.memory, trial.round, cohort, costs)


def rounds(
    parts: Parts, state: State, trials: list[Trial]
) -> Iterator[tuple[State, list[tuple[Trial, RoundRecord]]]]:
    """Run until every trial has ended; after each round, the state and the records of the trials in it."""
    while running := [trial for trial in trials if trial.status == "running"]:
        started = time.perf_counter()
        number = running[0].round
        cohorts = {trial.index: _cohort(parts, trial.seed, number) for trial in running}
        decisions = {
            trial.index: parts.planners[trial.index].decide(
                trial.memory,
                number,
                cohorts[trial.index],
                parts.foes.costs(trial.index, parts.costs[trial.index]),
            )
            for trial in running
        }
        orders = _orders(parts, trials, cohorts, decisions, number)
        state, outcome = parts.engine.round(state, orders, number, keep=parts.config.local_accuracy)
        # to the host once: a field of a trial at a time costs more than the round does
        outcome = outcome._replace(readings=Reading(*(np.asarray(f, float) for f in outcome.readings)))
        times = {i: clock.round_seconds(parts.costs[i], cohorts[i], decisions[i].steps) for i in cohorts}
        for trial in running:
            _advance(parts, trial, cohorts[trial.index], decisions[trial.index], times[trial.index], outcome)
        scores = _evaluate(parts, state, running)
        _finish(parts, state, running, scores, outcome, cohorts)
        spent = time.perf_counter() - started
        yield (
            state,
            [
                (
                    trial,
                    _record(
                        parts,
                        trial,
                        cohorts[trial.index],
                        decisions[trial.index],
                        times[trial.index],
                        scores.get(trial.index, {}),
                        outcome,
                        spent / len(running),
                    ),
                )
                for trial in running
            ],
        )


def _cohort(parts: Parts, seed: int, number: int) -> Any:
    """This round's clients: a draw that depends on seed and round alone, so a resumed run draws the same."""
    clients = parts.task.shards.size.shape[1]
    if parts.cohort == clients:
        return np.arange(clients)
    rng = np.random.default_rng([seed, number, 0xC0])
    return np.sort(rng.choice(clients, parts.cohort, replace=False))


def _orders(
    parts: Parts, trials: list[Trial], cohorts: dict[int, Any], decisions: dict[int, Decision], number: int
) -> Orders:
    """Rectangular arrays over all trials; those that have ended get 0 steps and stand still."""
    shape = (len(trials), parts.cohort)
    cohort, steps = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    lr, known = np.ones(shape[0]), np.ones(shape[0])
    for index, who in cohorts.items():
        cohort[index], steps[index] = who, decisions[index].steps
        rate = decisions[index].lr
        lr[index], known[index] = (1.0, 0.0) if rate is None else (rate, 1.0)
    weights = np.take_along_axis(parts.weights, cohort, axis=1)
    orders = Orders(cohort, steps, lr, weights, known)
    if not parts.foes.attacks:
        return orders
    words = [parts.foes.words(t.seed, number, who) for t, who in zip(trials, cohort, strict=True)]
    return orders._replace(foes=np.take_along_axis(parts.foes.who, cohort, axis=1), words=np.stack(words))


def _advance(
    parts: Parts, trial: Trial, cohort: Any, decision: Decision, took: dict[str, float], outcome: Outcome
) -> None:
    trial.round += 1
    trial.seconds = {name: trial.seconds[name] + took[name] for name in took}
    for who, steps in zip(cohort, decision.steps, strict=True):
        trial.steps[who] += int(steps)
    mine = Reading(*(part[trial.index] for part in outcome.readings))
    mine = parts.foes.told(trial.index, cohort, mine)
    trial.memory = parts.planners[trial.index].learn(trial.memory, cohort, decision, mine)
    config = parts.configs[trial.index]
    out_of_time = config.seconds is not None and trial.seconds[config.clock] >= config.seconds
    if trial.round >= config.last_round or out_of_time:
        trial.status = "finished"


def _evaluate(parts: Parts, state: State, running: list[Trial]) -> dict[int, dict[str, dict[str, Any]]]:
    """Every split's metrics for the trials that are due: as often as asked, and always at the end."""
    due = [t for t in running if t.round % parts.config.eval_every == 0 or t.status != "running"]
    if not due:
        return {}
    picked = [trial.index for trial in due]
    every = parts.method.model(state.anchor, state.server)
    models = every if len(due) == len(every) else every[np.array(picked)]
    found: dict[int, dict[str, dict[str, Any]]] = {index: {} for index in picked}
    rare = due[0].round % (parts.config.eval_every * parts.config.test_every) == 0
    for split in parts.task.evals:
        ended = [place for place, trial in enumerate(due) if trial.status != "running"]
        places = list(range(len(due))) if split == "holdout" or rare else ended
        if not places:
            continue
        scores = parts.engine.evaluate(models if len(places) == len(due) else models[np.array(places)], split)
        for nth, place in enumerate(places):
            found[picked[place]][split] = metrics(scores, nth)
    return found


def _finish(
    parts: Parts,
    state: State,
    running: list[Trial],
    scores: dict[int, dict[str, dict[str, Any]]],
    outcome: Outcome,
    cohorts: dict[int, Any],
) -> None:
    """Targets reached, divergence noticed, and clients' own models scored where a trial ends."""
    for trial in running:
        config = parts.configs[trial.index]
        found = scores.get(trial.index)
        if found is None:
            continue
        holdout = found["holdout"]
        if not np.isfinite(holdout["loss"]):
            trial.status = "diverged"
            continue
        hit = config.target is not None and holdout["accuracy"] >= config.target
        if hit and trial.reached is None:
            trial.reached = {**trial.seconds, "rounds": trial.round}
            if config.stop_at_target:
                trial.status = "finished"
        if trial.status == "finished" and outcome.deltas is not None:
            trial.local = _local_accuracy(parts, state, trial, outcome, cohorts[trial.index])


def _local_accuracy(
    parts: Parts, state: State, trial: Trial, outcome: Outcome, cohort: Any
) -> dict[str, list[float]]:
    """ACC_Ci of the paper: client i's own model after its local steps, on the global splits."""
    assert outcome.deltas is not None
    before = state.anchor[trial.index] - state.step[trial.index]
    own = before + outcome.deltas[trial.index]
    return {
        split: [
            metrics(scores, place)["accuracy"]
            for scores in [parts.engine.evaluate(own, split)]
            for place in range(len(cohort))
        ]
        for split in parts.task.evals
    }


def _record(
    parts: Parts,
    trial: Trial,
    cohort: Any,
    decision: Decision,
    took: dict[str, float],
    found: dict[str, dict[str, Any]],
    outcome: Outcome,
    wall: float,
) -> RoundRecord:
    readings = {
        name: part[trial.index].tolist()
        for name, part in zip(Reading._fields, outcome.readings, strict=True)
        if np.any(outcome.readings.grad_sq)  # all zero when none were taken
    }
    each = clock.client_seconds(parts.costs[trial.index], cohort, decision.steps)
    return RoundRecord(
        trial.round,
        dict(trial.seconds),
        took,
        decision.predicted_seconds,
        found,
        [int(who) for who in cohort],
        [int(steps) for steps in decision.steps],
        decision.lr,
        parts.work.bytes_up * len(cohort),
        parts.work.bytes_down * len(cohort),
        readings,
        decision.explain | {"client_seconds": each.tolist()},
        {"seconds": wall},
        counted(parts.method, parts.weights[trial.index, cohort], decision.steps),
    )


def counted(method: Method, weights: Any, steps: Any) -> list[float]:
    """How much each upload counted; a rule that combines them does not say."""
    return [] if method.stacks else np.asarray(method.mix(weights, np.asarray(steps)), float).tolist()
