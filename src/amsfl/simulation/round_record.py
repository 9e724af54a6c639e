"""A round's record, of simulated and of real clients."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from amsfl import clock, protocol
from amsfl.clock import RoundEnd
from amsfl.core import Reading, Verdict
from amsfl.core.records import Json, JsonMapping
from amsfl.methods import Method
from amsfl.planning.memory import Decision, PlannerMemory
from amsfl.record import RoundRecord
from amsfl.record.schema import Array
from amsfl.simulation.event_queue import ServerMove
from amsfl.simulation.plan_round import TrialPlan
from amsfl.simulation.server_move import RoundResult
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState


class TakenResults(NamedTuple):
    """Whose results the server moved with, in the order of the record."""

    clients: list[int]
    steps: list[int]
    ages: Sequence[int]
    shares: Array  # of the data, as clients claim
    effective: Array  # steps as methods weigh by them
    reading: Reading | None  # what they read; None: nothing
    weighed: Mapping[str, Array]  # how much each counts after each link of a rule


def round_record(
    method: Method,
    end: RoundEnd,
    taken: TakenResults,
    decision: Decision,
    spent: Mapping[str, float],
    **fields: Any,
) -> RoundRecord:
    """One round's record; `spent` is joules and cost, `fields` are those that each server knows by itself."""
    reading, mix = taken.reading, mix_of(method, taken.shares, taken.effective)
    counts = {age: end.weight(age) if age else 1.0 for age in {*taken.ages}}
    lr = decision.lr
    return RoundRecord(
        predicted_seconds=float(decision.predicted_seconds),
        cohort=taken.clients,
        steps=taken.steps,
        lr=float(np.mean(lr)),
        readings={} if reading is None else {k: _finite(v) for k, v in reading._asdict().items()},
        mix=[share * counts[age] for share, age in zip(mix, taken.ages, strict=bool(mix))],
        weighed=_by_rule(taken.shares, taken.weighed),
        joules=spent.get("joules"),
        cost=spent.get("cost"),
        **fields,
    )


def simulated_round(
    setup: RunSetup, trial: TrialState, own: TrialPlan, result: RoundResult, scores: dict[str, Json]
) -> RoundRecord:
    """The record of one trial's round; how long it took is said by who knows."""
    index = trial.index
    jobs, ledger = own.move.jobs, setup.ledgers[index]
    costs = setup.costs[index]
    clients, steps, ages = jobs["client"], jobs["steps"], (trial.round - 1 - jobs["version"]).tolist()
    timeline = {} if setup.whole_rounds[index] else _timeline(own.move, ages)
    planned = clock.client_seconds(costs, clients, steps)
    each = jobs["arrives"] - jobs["started"] if timeline else planned
    explained = own.decision.explain | {"client_seconds": each.tolist()}
    if costs.fedavg_seconds is not None and not setup.policy.constant:
        fedavg = costs.fedavg_seconds[clients] + setup.profiles[index].step_seconds[clients] * steps
        explained["extra_seconds"] = (planned - fedavg).tolist()
    if setup.judges:
        explained |= judged(trial.memory)
    if "joules" in own.spent:
        explained["client_joules"] = costs.accounts["joules"].of(clients, steps).tolist()
    reading, weighed = result.reading, result.weighed
    epsilon = []
    if setup.mechanism is not None:
        epsilon = ledger.bounds(ledger.units(trial.steps_begun, trial.round))
    return round_record(
        setup.method,
        setup.end,
        TakenResults(
            clients.tolist(),
            steps.tolist(),
            ages,
            setup.weights[index, clients],
            steps,
            reading if reading.grad_sq.any() else None,  # all zero when none were taken
            weighed,
        ),
        own.decision,
        own.spent,
        round=trial.round,
        seconds=dict(trial.seconds),
        round_seconds=own.seconds,
        metrics=scores,
        bytes_up=setup.work.bytes_up * len(jobs),
        bytes_down=setup.work.bytes_down * (len(jobs) + len(own.move.dropped)),
        plan=explained,
        epsilon=epsilon,
        **timeline,
    )


def judged(memory: PlannerMemory) -> Json:
    """What the judge made of the last round, for a record."""
    return {"held_loss": memory.judge.held_loss, "verdict": Verdict(memory.judge.verdict).name.lower()}


def _timeline(move: ServerMove, ages: list[int]) -> Json:
    """When each client worked, how old its model was, and whose work was not used."""
    lost = zip(*(move.dropped[name].tolist() for name in ("client", "started", "arrives")), strict=True)
    return {
        "staleness": ages,
        "started": move.jobs["started"].tolist(),
        "arrived": move.jobs["arrives"].tolist(),
        "dropped": [list(each) for each in lost],
    }


def _finite(column: ArrayLike) -> list[float | None]:
    """None where a client has no such number."""
    return [each if np.isfinite(each) else None for each in np.asarray(column, float).tolist()]


def _by_rule(shares: Array, weighed: JsonMapping) -> dict[str, list[float | None]]:
    """How much each of a cohort counts by what it claims, and after each link of the rule."""
    if not weighed:
        return {}
    columns = {"claimed": np.asarray(shares, float) / np.sum(shares), **weighed}
    return {name: _finite(column) for name, column in columns.items()}


def mix_of(method: Method, shares: Array, steps: Array) -> list[float]:
    """How much each upload counts; [] under a rule that compares uploads."""
    if protocol.compares_uploads(method):
        return []
    mix: list[float] = np.asarray(method.arithmetic.mix(shares, np.asarray(steps)), float).tolist()
    return mix
