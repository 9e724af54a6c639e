"""The round: plan -> local work -> aggregate -> observe -> record; until rounds, seconds or target say stop.

Who starts and who comes when is flight.py's queue; a round is what happens until the server moves.
Trials run in lockstep, so that the engine has all their clients at once; each keeps its own time,
plan and end. A plain run is one trial.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from amsfl import clock
from amsfl.core import Reading, score
from amsfl.engines import State, metrics
from amsfl.methods import Method
from amsfl.planning.context import start
from amsfl.record import RoundRecord
from amsfl.settings.limits import over_limit
from amsfl.simulation import best_round, dispatch, lookahead
from amsfl.simulation import event_queue as queue
from amsfl.simulation.detailed_scores import ranked
from amsfl.simulation.event_queue import Flight, Move
from amsfl.simulation.lookahead import Leg
from amsfl.simulation.server_move import (
    Trial,
    agreed,
    allowance,
    decided,
    learnt,
    spent,
    took,
    until_the_server_moves,
    worked,
)
from amsfl.simulation.setup import Parts


def begin(parts: Parts) -> tuple[State, list[Trial]]:
    clients = parts.task.shards.size.shape[1]
    trials = [
        Trial(index, seed, start(desk), steps=[0] * clients)
        for index, (seed, desk) in enumerate(zip(parts.task.seeds, parts.desks, strict=True))
    ]
    return parts.engine.start(), trials


def rehearse(parts: Parts, trial: Trial) -> None:
    """Plan the first round and throw the plan away: a budget too small is said before a folder is made."""
    allowed = allowance(parts, trial)
    who = dispatch.drawn(parts, trial.seed, Flight(), 0, allowed)
    dispatch.decide(parts, trial.index, trial.memory, 0, who, allowed)


def rounds(
    parts: Parts, state: State, trials: list[Trial]
) -> Iterator[tuple[State, list[tuple[Trial, RoundRecord]]]]:
    """Run until every trial has ended; after each move of the server, the state and the trials' records."""
    most = 1
    while running := [trial for trial in trials if trial.status == "running"]:
        started = time.perf_counter()
        if lookahead.foreseen(parts):
            legs = lookahead.legs(parts, running, most, _plan, _advance)
            states, outcomes = lookahead.worked(parts, state, legs)
        else:
            leg = _plan(parts, running)
            states, readings, deltas, weighed = worked(parts, state, running, leg.moves, leg.decisions)
            for trial in running:
                _advance(parts, trial, leg)
            learnt(parts, running, leg.moves, leg.decisions, readings)
            legs, outcomes = (
                [leg._replace(after={t.index: t for t in running})],
                [(readings, deltas, weighed)],
            )
        scores = _evaluate(parts, states, [[*leg.after.values()] for leg in legs])
        wall = (time.perf_counter() - started) / len(legs)
        most = lookahead.next_time(parts, running, wall)
        for nth, (leg, outcome, found) in enumerate(zip(legs, outcomes, scores, strict=True)):
            readings, deltas, weighed = outcome
            state = parts.engine.at(states, nth) if lookahead.foreseen(parts) else states
            there = [trial for trial in running if trial.index in leg.after]
            for trial in there:
                lookahead.catch_up(trial, leg.after[trial.index])
            _finish(parts, state, there, found, deltas, leg.cohorts)
            yield (
                state,
                [
                    (
                        trial,
                        _record(
                            parts,
                            trial,
                            leg,
                            found,
                            readings[trial.index],
                            weighed[trial.index],
                            wall / len(there),
                        ),
                    )
                    for trial in there
                ],
            )
            if any(trial.status != leg.after[trial.index].status for trial in there):
                break  # what was planned for those who ended is not to happen


def _plan(parts: Parts, running: list[Trial]) -> Leg:
    ready = agreed(parts, running)
    moves = {t.index: until_the_server_moves(parts, t, ready.get(t.index)) for t in running}
    return Leg(
        moves,
        {trial.index: decided(parts, trial, moves[trial.index]) for trial in running},
        {trial.index: took(parts, trial, moves[trial.index]) for trial in running},
        {trial.index: spent(parts, trial, moves[trial.index]) for trial in running},
    )


def _advance(parts: Parts, trial: Trial, leg: Leg) -> None:
    index, config = trial.index, parts.configs[trial.index]
    trial.round += 1
    trial.spent = {name: trial.spent.get(name, 0.0) + each for name, each in leg.bills[index].items()}
    trial.seconds = {name: trial.seconds[name] + each for name, each in leg.times[index].items()}
    jobs = leg.moves[index].jobs
    for who, steps in zip(jobs["client"].tolist(), jobs["steps"].tolist(), strict=True):
        trial.steps[who] += steps
    out_of_time = config.seconds is not None and trial.seconds[config.clock] >= config.seconds
    used_up = over_limit(config, trial.spent) is not None
    ledger = parts.ledgers[index]
    nothing_left = ledger.exhausted(ledger.units(trial.begun, trial.round))
    if trial.round >= config.last_round or out_of_time or used_up or nothing_left:
        trial.status = "finished"
    trial.seconds["makespan"] = leg.moves[index].seconds  # the same, but for rounding
    queue.tidy(trial.flight, trial.round)


def _evaluate(
    parts: Parts, states: State, legs: list[list[Trial]]
) -> list[dict[int, dict[str, dict[str, Any]]]]:
    """Of every round, every split's metrics of the trials that are due: as often as asked, and at the end."""
    count, often = len(parts.configs), parts.config.eval_every
    found: list[dict[int, dict[str, dict[str, Any]]]] = []
    asked: dict[str, list[tuple[int, int]]] = {split: [] for split in parts.task.evals}
    for leg, running in enumerate(legs):
        due = [trial for trial in running if trial.round % often == 0 or trial.status != "running"]
        found.append({trial.index: {} for trial in due})
        rare = bool(due) and due[0].round % (often * parts.config.test_every) == 0
        for split, places in asked.items():
            now = [t for t in due if split == "holdout" or rare or t.status != "running"]
            places += [(leg, trial.index) for trial in now]
    models: Any = parts.engine.models(states) if any(asked.values()) else None
    for split, places in asked.items():
        if places:
            scores = parts.engine.evaluate(models, split, [leg * count + index for leg, index in places])
            for (leg, index), each in zip(places, metrics(scores), strict=True):
                found[leg][index][split] = each
                if parts.score.ranks:
                    model = parts.engine.whole(models[leg * count + index])
                    found[leg][index][split] |= ranked(parts, model, split)
    return found


def _finish(
    parts: Parts,
    state: State,
    running: list[Trial],
    scores: dict[int, dict[str, dict[str, Any]]],
    deltas: Any,
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
        if best_round.judge(
            trial, best_round.worth(holdout, config.judge_by, parts.score), config.stop_after
        ):
            trial.status = "finished"
        if trial.reached is None and parts.score.met(holdout, config.target):
            trial.reached = {**trial.seconds, **trial.spent, "rounds": trial.round}
            if config.stop_at_target:
                trial.status = "finished"
        if trial.status == "finished" and deltas is not None:
            own = parts.engine.own(state, deltas, trial.index)
            trial.local = _local_scores(parts, own, len(cohorts[trial.index]))


def _local_scores(parts: Parts, own: Any, cohort: int) -> dict[str, list[float | None]]:
    """ACC_Ci of the paper (R² of numbers): client i's own model after its steps, on the global splits."""
    usual = score("", parts.data.classes)
    return {
        split: [usual.of(each) for each in metrics(parts.engine.evaluate(own, split))[:cohort]]
        for split in parts.task.evals
    }


def _record(
    parts: Parts,
    trial: Trial,
    leg: Leg,
    scores: dict[int, dict[str, dict[str, Any]]],
    reading: Reading,
    weighed: dict[str, Any],
    wall: float,
) -> RoundRecord:
    move, decision = leg.moves[trial.index], leg.decisions[trial.index]
    took, bill = leg.times[trial.index], leg.bills[trial.index]
    found = scores.get(trial.index, {})
    taken = reading.grad_sq.any()  # all zero when none were taken
    readings = {name: part.tolist() for name, part in reading._asdict().items()} if taken else {}
    jobs, sent = move.jobs, len(move.jobs)
    ages = (trial.round - 1 - jobs["version"]).tolist()
    calm = parts.end.waits_for_all and parts.weather[trial.index].calm
    own = {} if calm else _timeline(move, ages)
    each = jobs["arrives"] - jobs["started"]
    if not own:  # the same but for rounding
        each = clock.client_seconds(parts.costs[trial.index], jobs["client"], jobs["steps"])
    plan = decision.explain | {"client_seconds": each.tolist()}
    if "joules" in bill:
        account = parts.costs[trial.index].accounts["joules"]
        plan["client_joules"] = account.of(jobs["client"], jobs["steps"]).tolist()
    ledger = parts.ledgers[trial.index]
    weights, worth = (
        parts.weights[trial.index, jobs["client"]],
        {age: parts.end.weight(age) for age in set(ages)},
    )
    mix = counted(parts.method, weights, jobs["steps"])
    return RoundRecord(
        trial.round,
        dict(trial.seconds),
        took,
        decision.predicted_seconds,
        found,
        jobs["client"].tolist(),
        jobs["steps"].tolist(),
        float(np.mean(decision.lr)) if isinstance(decision.lr, np.ndarray) else decision.lr,
        parts.work.bytes_up * sent,
        parts.work.bytes_down * (sent + len(move.dropped)),
        readings,
        plan,
        {"seconds": wall},
        [share * worth[age] for share, age in zip(mix, ages, strict=bool(mix))],
        weighed=by_rule(weights, weighed),
        joules=bill.get("joules"),
        cost=bill.get("cost"),
        epsilon=ledger.bounds(ledger.units(trial.begun, trial.round)),
        **own,
    )


def _timeline(move: Move, ages: list[int]) -> dict[str, Any]:
    """When each client worked, how old its start was; and those whose work was not used."""
    lost = zip(*(move.dropped[name].tolist() for name in ("client", "started", "arrives")), strict=True)
    return {
        "staleness": ages,
        "started": move.jobs["started"].tolist(),
        "arrived": move.jobs["arrives"].tolist(),
        "dropped": [list(each) for each in lost],
    }


def by_rule(weights: Any, weighed: dict[str, Any]) -> dict[str, list[float | None]]:
    """How much each of a cohort counts by what it claims, and after each link of the rule, for a record."""
    if not weighed:
        return {}
    columns = {"claimed": np.asarray(weights, float) / np.sum(weights), **weighed}
    return {
        name: [float(each) if np.isfinite(each) else None for each in column]
        for name, column in columns.items()
    }


def counted(method: Method, weights: Any, steps: Any) -> list[float]:
    """How much each upload counted; a rule that combines them does not say."""
    return (
        []
        if method.needs_all_uploads
        else np.asarray(method.arithmetic.mix(weights, np.asarray(steps)), float).tolist()
    )
