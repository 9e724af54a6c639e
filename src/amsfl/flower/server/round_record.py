"""A round's record."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.flower.server import client_scores, clients, update
from amsfl.flower.server.round_results import RoundResults
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.spending import SpendingMeter
from amsfl.record import RoundRecord
from amsfl.simulation.round_record import TakenResults
from amsfl.simulation.round_record import round_record as build_record

if TYPE_CHECKING:
    from amsfl.flower.server.server import FlowerServer


class RoundTotals(NamedTuple):
    """What a round took."""

    seconds: dict[str, float]
    bytes_up: float
    spent: dict[str, float]  # joules, megabytes, cost
    started: float

    @classmethod
    def add(
        cls, state: ServerState, spending: SpendingMeter, results: RoundResults, started: float
    ) -> "RoundTotals":
        """To the state's own totals."""
        replies = results.replies
        seconds = {"sum": float(sum(item.seconds for item in replies)), "makespan": float(results.seconds)}
        state.seconds = {key: state.seconds[key] + each for key, each in seconds.items()}
        bytes_up = float(sum(item.bytes_up for item in replies))
        steps = np.array([item.reply.steps for item in replies], int)
        lost = [(each.client, each.steps) for each in results.dropped]
        spent = spending.bill(results.cohort, steps, lost, bytes_up + results.bytes_down)
        state.spent = {name: state.spent.get(name, 0.0) + each for name, each in spent.items()}
        return cls(seconds, bytes_up, spent, started)


class FinishedRound(NamedTuple):
    results: RoundResults
    reading: Reading
    weighed: dict[str, Any]  # how much each client counts after each link of a rule
    metrics: dict[str, Any]
    totals: RoundTotals


def round_record(server: "FlowerServer", state: ServerState, finished: FinishedRound) -> RoundRecord:
    """Of the round that has just been scored; refusals and notes so far are part of it."""
    results, reading, weighed, metrics, totals = finished
    registration, replies = server.registration, results.replies
    registration.notes += update.notes(replies)
    if not server.privacy.clients:
        metrics = metrics | client_scores.training(replies, state, registration)
    steps = [item.reply.steps for item in replies]
    plan = {
        **results.decision.explain,
        "step_seconds": [item.reply.step_seconds for item in replies],
        "compute_seconds": [item.reply.compute_seconds for item in replies],
        "client_seconds": [item.seconds for item in replies],
        "refused": list(registration.refused),
        "notes": list(registration.notes),
        **server.spending.each(results.cohort, np.array(steps, int)),
    }
    state.refused += len(registration.refused)
    registration.refused, registration.notes = [], []
    shares = clients.weights(state.clients)[results.cohort]
    ages, plain = [item.age for item in replies], np.asarray(update.plain_steps(replies))
    return build_record(
        server.method,
        server.end,
        TakenResults(results.cohort.tolist(), steps, ages, shares, plain),
        results.decision,
        weighed,
        spent=totals.spent,
        reading=reading if server.orders.readings else None,
        round=state.round,
        seconds=dict(state.seconds),
        round_seconds=totals.seconds,
        metrics=metrics,
        bytes_up=totals.bytes_up,
        bytes_down=results.bytes_down,
        plan=plan,
        wall={"seconds": server.transport.now() - totals.started, "elapsed": state.elapsed},
        epsilon=server.privacy.ledger.bounds(server.privacy.units(state)),
        **results.timeline,
    )
