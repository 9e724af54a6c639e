"""One move of the server in every trial: who is in by then, and what their work makes of the state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from amsfl import clock
from amsfl.core import Reading
from amsfl.drift import plausibility
from amsfl.engines import Orders, State
from amsfl.planning import decisions as deciding
from amsfl.planning import learning
from amsfl.planning.context import Decision, Heeded, Memory
from amsfl.settings.privacy import private_settings
from amsfl.simulation import collect, dispatch
from amsfl.simulation import event_queue as queue
from amsfl.simulation.event_queue import Flight, Move
from amsfl.simulation.setup import Parts

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
    spent: dict[str, float] = field(default_factory=dict)  # joules, megabytes, cost so far
    reached: Reached | None = None  # seconds and rounds at the first evaluation at or above the target
    best_score: float | None = None  # more is better (judging.py)
    best_round: int = 0
    stale: int = 0  # scored rounds since then
    local: dict[str, list[float | None]] | None = None  # accuracy or R² of each client's own model, by split
    flight: Flight = field(default_factory=Flight)  # who is under way

    @property
    def begun(self) -> Sequence[int]:
        """Every client's steps, those under way or lost included."""
        return self.flight.taken(len(self.steps))


class Worked(NamedTuple):
    state: State
    readings: dict[int, Reading]  # by trial, as the next one
    deltas: Any  # of clients, where they are kept
    weighed: dict[int, dict[str, Any]]  # how much each of the cohort counts after each link of a rule


def agreed(parts: Parts, running: list[Trial]) -> dict[int, Decision]:
    """What trials decide for the round that they begin, all of them together; of those in which it is certain
    who begins it, and that they do so once: everybody is waited for and comes."""
    sure = [t for t in running if parts.end.waits_for_all and parts.weather[t.index].calm]
    asked = []
    for trial in sure:
        allowed = allowance(parts, trial)
        who = dispatch.drawn(parts, trial.seed, trial.flight, trial.round, allowed)
        asked.append(dispatch.asked(parts, trial.index, trial.memory, trial.round, who, allowed))
    found = deciding.decide([parts.desks[trial.index] for trial in sure], asked)
    return {trial.index: decision for trial, decision in zip(sure, found, strict=True)}


def until_the_server_moves(parts: Parts, trial: Trial, ready: Decision | None = None) -> Move:
    flight = trial.flight

    def invite(now: float) -> Any:
        allowed = allowance(parts, trial)
        return dispatch.invited(parts, trial.index, trial.memory, flight, trial.round, now, allowed, ready)

    move = queue.next_move(flight, trial.seconds["makespan"], trial.round, parts.end, invite)
    return collect.seen(parts, move, trial.round)


def allowance(parts: Parts, trial: Trial) -> Any:
    """The most steps of every client in the next round, by what privacy it has left; None: no such limit."""
    if parts.mechanism is None:
        return None
    config, share = parts.configs[trial.index], None
    if parts.policy.readings:  # who plans by worth is paced
        share = private_settings(config).share(trial.round, trial.seconds[config.clock])
    return parts.mechanism.allowance(parts.ledgers[trial.index], trial.begun, share)


def decided(parts: Parts, trial: Trial, move: Move) -> Decision:
    """What was decided for those who came, whenever that was."""
    told = dict(queue.reasons(trial.flight, move.jobs))
    lr, predicted = move.jobs["lr"], told.pop("predicted_seconds")
    if not move.whole:
        predicted = move.seconds - trial.seconds["makespan"]
    known: Any = float(lr[0]) if move.whole or queue.alike(lr) else lr
    return Decision(move.jobs["steps"], None if np.isnan(lr).any() else known, predicted, told)


def took(parts: Parts, trial: Trial, move: Move) -> dict[str, float]:
    """This move's share of the time by both clocks; one after another, clients' own seconds add up."""
    if move.whole and parts.weather[trial.index].calm:
        return clock.round_seconds(parts.costs[trial.index], move.jobs["client"], move.jobs["steps"])
    work = queue.joined(move.jobs, move.dropped)
    lasted = move.seconds - trial.seconds["makespan"]
    return {"sum": float((work["arrives"] - work["started"]).sum()), "makespan": lasted}


def spent(parts: Parts, trial: Trial, move: Move) -> dict[str, float]:
    """This move's joules, megabytes and cost: of what came in, and of work that came to nothing."""
    came, lost = ((some["client"], some["steps"]) for some in (move.jobs, move.dropped))
    return clock.spent(parts.costs[trial.index].accounts, came, lost)


def worked(
    parts: Parts, state: State, running: list[Trial], moves: dict[int, Move], decisions: dict[int, Decision]
) -> Worked:
    """The state after every trial's move, and what else came of it.

    Whole cohorts from the newest model go through the engine's own round, which sums as it goes; whatever
    else is under way is worked on together and settled one trial after another.
    """
    for trial in running:
        collect.remember(parts, state, trial.index, trial.flight, trial.round)
    here = {t.index: t for t in running}
    rounds_ = {i: move for i, move in moves.items() if move.whole}
    others = {i: move for i, move in moves.items() if i not in rounds_}
    readings: dict[int, Reading] = {}
    weighed: dict[int, dict[str, Any]] = {}
    deltas = None
    if others:
        state = collect.on_host(state)
        flights, versions = {i: t.flight for i, t in here.items()}, {i: t.round for i, t in here.items()}
        collect.compute(parts, state, flights, others, versions)
        for index, move in others.items():
            readings[index], weighed[index] = collect.settle(
                parts, state, index, flights[index], move, versions[index]
            )
    if rounds_:
        number = running[0].round
        cohorts = {index: move.jobs["client"] for index, move in rounds_.items()}
        orders = ordered(parts, cohorts, decisions, number)
        if isinstance(state.anchor, np.ndarray):
            state = parts.engine.place(state)
        state, outcome = parts.engine.round(state, orders, number, keep=parts.config.local_accuracy)
        # to the host once: a field of a trial at a time costs more than the round does
        whole = Reading(*(np.asarray(part, float) for part in outcome.readings))
        readings |= {index: Reading(*(part[index] for part in whole)) for index in rounds_}
        counts = {name: np.asarray(part, float) for name, part in outcome.weighed.items()}
        weighed |= {index: {name: part[index] for name, part in counts.items()} for index in rounds_}
        deltas = outcome.deltas
    return Worked(state, readings, deltas, weighed)


def learnt(
    parts: Parts,
    running: list[Trial],
    moves: dict[int, Move],
    decisions: dict[int, Decision],
    readings: dict[int, Reading],
) -> None:
    """Into every trial's memory what its round's readings say."""
    told = [
        Heeded(t.memory, who, decisions[t.index], parts.foes.told(t.index, who, readings[t.index]))
        for t in running
        for who in [moves[t.index].jobs["client"]]
    ]
    found = learning.learn([parts.desks[trial.index] for trial in running], told)
    for trial, memory in zip(running, found, strict=True):
        trial.memory = memory


def ordered(parts: Parts, cohorts: dict[int, Any], decisions: dict[int, Decision], number: int) -> Orders:
    """Rectangular arrays over all trials; those that have ended get 0 steps and stand still."""
    shape = (len(parts.configs), parts.cohort)
    cohort, steps = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    lr, known, opening = (
        np.ones(shape[0]),
        np.ones(shape[0]),
        plausibility.believing(parts.method.combine).opening,
    )
    for index, who in cohorts.items():
        cohort[index, : len(who)], steps[index, : len(who)] = who, decisions[index].steps
        rate = decisions[index].lr
        lr[index], known[index] = (opening, 0.0) if rate is None else (rate, 1.0)
    weights = np.take_along_axis(parts.weights, cohort, axis=1)
    orders = Orders(cohort, steps, lr, weights, known)
    if parts.method.private_clients is not None:
        drawn = [dispatch.by_chance(parts, seed, number) for seed in parts.task.seeds]
        there = np.stack([np.isin(who, some) for who, some in zip(cohort, drawn, strict=True)]) & (steps > 0)
        orders = orders._replace(weights=weights * there, largest=parts.weights.max(1))
    if not parts.foes.attacks:
        return orders
    words = [parts.foes.words(seed, number, who) for seed, who in zip(parts.task.seeds, cohort, strict=True)]
    forging = parts.foes.forging(number, np.arange(shape[0])[:, None], cohort)
    return orders._replace(attackers=forging, words=np.stack(words))
