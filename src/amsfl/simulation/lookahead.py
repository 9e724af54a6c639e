"""Rounds that are planned before any of them is run, so that the engine has several at once.

Possible where nothing that a round finds changes the next one's plan: steps that are fixed, everybody waited
for. The plans are made on copies of the trials. The trials themselves follow round by round, as if each had
been run by itself; and where one of them ends earlier than planned (its target, or it diverged), what was
computed beyond that is thrown away.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.engines import Orders, State
from amsfl.planning.planner import Decision
from amsfl.simulation.event_queue import Move
from amsfl.simulation.server_move import Trial, ordered
from amsfl.simulation.setup import Parts

AT_ONCE = 0.5  # seconds of work that are handed over in one piece: people watch, and may want to stop it
RISKED = 4  # rounds at once where any of several trials may end in each of them
PLANNED = ("memory", "round", "seconds", "steps", "status", "spent", "flight")  # of a trial, by its plan


class Leg(NamedTuple):
    """One round of every trial that runs: moves, decisions, seconds, what was spent; the trials after it."""

    moves: dict[int, Move]
    decisions: dict[int, Decision]
    times: dict[int, dict[str, float]]
    bills: dict[int, dict[str, float]]
    after: dict[int, Trial] = {}  # noqa: RUF012 (nobody writes to it)

    @property
    def cohorts(self) -> dict[int, Any]:
        return {index: move.jobs["client"] for index, move in self.moves.items()}


def foreseen(parts: Parts) -> bool:
    """Whether this run's plans follow from its settings alone, and its engine gains from knowing them."""
    waited_for = parts.end.waits_for_all and all(weather.calm for weather in parts.weather)
    learns = parts.method.facts.own_rate or not parts.policy.constant
    private = (
        parts.method.private_rows or parts.method.private_clients is not None
    )  # who takes part is then a matter of chance
    return parts.engine.ahead > 1 and waited_for and not learns and not private


def next_time(parts: Parts, running: list[Trial], seconds: float) -> int:
    """Rounds to plan at once, by what one of them takes."""
    early = (config.stop_at_target or config.stop_after for config in parts.configs)
    risky = len(running) > 1 and any(early)
    most = min(parts.engine.ahead, RISKED) if risky else parts.engine.ahead
    return max(1, min(most, int(AT_ONCE / max(seconds, 1e-6))))


def legs(
    parts: Parts,
    running: list[Trial],
    most: int,
    plan: Callable[[Parts, list[Trial]], Leg],
    advance: Callable[[Parts, Trial, Leg], None],
) -> list[Leg]:
    """The next rounds, `most` at most, until every trial has ended."""
    scouts, found = [_copied(trial) for trial in running], list[Leg]()
    while scouts and len(found) < most:
        leg = plan(parts, scouts)
        for scout in scouts:
            advance(parts, scout, leg)
        found.append(leg._replace(after={scout.index: _copied(scout) for scout in scouts}))
        scouts = [scout for scout in scouts if scout.status == "running"]
    return found


Found = tuple[dict[int, Reading], Any, dict[int, dict[str, Any]]]  # readings, deltas, what a rule weighed


def worked(parts: Parts, state: State, legs: list[Leg]) -> tuple[State, list[Found]]:
    """The states after each of the rounds, and of each its readings by trial and clients' deltas."""
    first = next(iter(legs[0].after.values())).round - 1
    orders: list[Orders] = [
        ordered(parts, leg.cohorts, leg.decisions, first + nth) for nth, leg in enumerate(legs)
    ]
    states, outcomes = parts.engine.span(state, orders, first, keep=parts.config.local_accuracy)
    found: list[Found] = []
    for leg, outcome in zip(legs, outcomes, strict=True):
        whole = Reading(*(np.asarray(part, float) for part in outcome.readings))
        readings = {index: Reading(*(part[index] for part in whole)) for index in leg.moves}
        counts = {name: np.asarray(part, float) for name, part in outcome.weighed.items()}
        weighed = {index: {name: part[index] for name, part in counts.items()} for index in leg.moves}
        found.append((readings, outcome.deltas, weighed))
    return states, found


def catch_up(trial: Trial, planned: Trial) -> None:
    """The trial as it was planned to be; what else it came to is its own."""
    if trial is not planned:
        vars(trial).update({name: getattr(planned, name) for name in PLANNED})


def _copied(trial: Trial) -> Trial:
    flight = trial.flight
    own = replace(flight, numbers=dict(flight.numbers), told=dict(flight.told), begun=dict(flight.begun))
    return replace(trial, seconds=dict(trial.seconds), steps=list(trial.steps), flight=own)
