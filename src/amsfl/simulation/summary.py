"""The end of a run in numbers: summary.json, and what a planned run saved against FedAvg with equal steps.

FedAvg is given as many rounds and as many steps in all: everybody takes the run's mean number of steps in
every round, and nothing of what the run's own method asks for besides (`extra_seconds` of a round's plan).
What is neither steps nor that stays as it was. Whether FedAvg would have needed more rounds or fewer, no
record of another method says.
"""

import sys
from collections.abc import Sequence

import numpy as np

from amsfl import methods, planning, protocol
from amsfl.core.records import Json
from amsfl.core.scores import judged_by
from amsfl.engines.task import Matrix
from amsfl.record import RoundRecord, Summary
from amsfl.settings.checks import no_claim, private_settings
from amsfl.simulation import contributions
from amsfl.simulation.components import client_labels
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState
from amsfl.worth import interval


def summarise(
    setup: RunSetup, trial: TrialState, records: list[RoundRecord], wall: float, model: Matrix, details: Json
) -> Summary:
    """The machine-readable end of a run. All that depends on the machine's speed is under `wall`."""
    config, ledger = setup.configs[trial.index], setup.ledgers[trial.index]
    last: Json = next((r.metrics for r in reversed(records) if r.metrics), {})
    names = client_labels(config, setup.data, len(trial.steps))
    sites, reached, best = ("every client",) if ledger.by_round else names, trial.reached or {}, Json()
    if trial.best_score is not None:
        name, larger = judged_by({}, setup.score, setup.by_loss)
        score = trial.best_score if larger else -trial.best_score
        best = {"round": trial.best_round, "score": score}
        best["by"] = name if setup.by_loss else setup.score.title
    units, by_data = ledger.units(trial.begun, trial.round), private_settings(config).stops_by_data
    notes = [
        setup.data.note,
        setup.federation.method.facts.note,
        f"Every client's epsilon was spent after {trial.round} rounds." if ledger.exhausted(units) else "",
        no_claim(ledger, by_data),
        planning.describe(trial.memory.judge),
    ]
    if config.stop_after and trial.stale >= config.stop_after:
        notes.append(
            f"Ended after {trial.stale} scored rounds without a better {best.get('by')}; "
            "--stop-after 0 goes on to the last round."
        )
    return Summary(
        method=config.method,
        seed=trial.seed,
        status=trial.status,
        rounds=trial.round,
        clock=config.clock,
        virtual_seconds=trial.seconds[config.clock],
        virtual_seconds_by_clock=trial.seconds,
        target=config.target,
        seconds_to_target=reached.get(config.clock),
        rounds_to_target=int(reached["rounds"]) if reached else None,
        steps=dict(zip(names, trial.steps, strict=True)),
        epsilon=dict(zip(sites, ledger.claims(units, by_data), strict=False)),
        noise={name: each.noise for name, each in zip(sites, ledger.exposures, strict=False)},
        joules=trial.spent.get("joules"),
        cost=trial.spent.get("cost"),
        joules_to_target=reached.get("joules"),
        megabytes_to_target=reached.get("megabytes"),
        bytes_up=sum(record.bytes_up for record in records),
        bytes_down=sum(record.bytes_down for record in records),
        data=setup.data.name,
        synthetic=setup.data.synthetic,
        note=" ".join(filter(None, notes)),
        accuracy=last.get("holdout", {}).get("accuracy"),
        test_accuracy=last.get("test", {}).get("accuracy"),
        metrics=last,
        local_accuracy=trial.local if setup.data.classes else None,
        local_scores=None if setup.data.classes else trial.local,
        score=setup.score.name,
        details=details,
        best=best,
        worth=contributions.state(setup, trial, model),
        verdict=_verdict(setup, trial, records),
        wall={
            "seconds": wall,
            "client_steps_per_second": sum(trial.steps) / wall if wall else None,
            "peak_mb": peak_mb(),
        },
    )


def _verdict(setup: RunSetup, trial: TrialState, records: Sequence[RoundRecord]) -> Json:
    """What guarded a planned run and what it saved; {} where nobody planned steps, or rounds do not wait."""
    (method, transmit, rule, *_), judge = setup.federation, trial.memory.judge
    if setup.policy.constant or not setup.end.waits_for_all:
        return {}
    fedavg = protocol.upload_bytes(methods.make("fedavg"), transmit, setup.task.dim)
    bytes_each = 4.0 * setup.task.dim + fedavg
    paces = setup.profiles[trial.index].step_seconds
    saved = against_fedavg(records, setup.configs[trial.index].clock, bytes_each, paces)
    if not saved:
        return {}
    guard = {"judge": method.judges, "returns": len(judge.backs), "restarts": len(judge.restarts)}
    return {"guard": guard | {"rule": "" if rule is None else rule.name}, **saved}


def against_fedavg(
    rounds: Sequence[RoundRecord], clock: str, bytes_each: float, step_seconds: Matrix
) -> Json:
    """FedAvg in place of the rounds of a run that waits for its whole cohort, and what was saved against it,
    below 0: what more was spent; {} where rounds do not say how long clients took.

    A client of FedAvg sends and receives `bytes_each` in a round.
    """
    rounds = [each for each in rounds if each.cohort]
    if not rounds or not all("client_seconds" in each.plan for each in rounds):
        return {}
    clients = sum(len(each.cohort) for each in rounds)
    steps = sum(sum(each.steps) for each in rounds) / clients
    took = []
    for each in rounds:
        pace, own = step_seconds[each.cohort], np.asarray(each.plan["client_seconds"], float)
        extra = np.asarray(each.plan.get("extra_seconds", pace * bool(each.readings)), float)
        seconds = np.maximum(own - extra - pace * np.asarray(each.steps), 0) + pace * steps
        took.append(float(seconds.sum() if clock == "sum" else seconds.max()))
    saved = interval(np.array(took) - [each.round_seconds[clock] for each in rounds])
    megabytes = clients * bytes_each / 1e6
    return {
        "steps": steps,  # of everybody in every round
        "seconds": float(sum(took)),
        "seconds_saved": [len(rounds) * part for part in saved],  # 90% interval by the spread over rounds
        "megabytes": megabytes,
        "megabytes_saved": megabytes - sum(each.bytes_up + each.bytes_down for each in rounds) / 1e6,
    }


def sentence(verdict: Json) -> str:
    """The verdict of a summary in a line; "" where there is none."""
    if not verdict:
        return ""
    saved = verdict["seconds_saved"][0]
    low, high = sorted(part if saved >= 0 else -part for part in verdict["seconds_saved"][1:])
    megabytes = verdict["megabytes_saved"]
    return (
        f"FedAvg with {verdict['steps']:.1f} steps each would have taken {verdict['seconds']:.4g} s "
        f"for as many rounds and steps: {abs(saved):.3g} s {'saved' if saved >= 0 else 'more spent'} "
        f"({low:.3g} to {high:.3g}), {abs(megabytes):.3g} MB {'less' if megabytes >= 0 else 'more'} sent"
    )


def peak_mb() -> float | None:
    """The most memory this process has held; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, kilobytes elsewhere
