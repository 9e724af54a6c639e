"""The end of a run in numbers: summary.json."""

import sys
from collections.abc import Sequence
from typing import Any

from amsfl import methods, planning, protocol
from amsfl.clock import RoundEnd
from amsfl.core.records import Json
from amsfl.core.scores import judged_by
from amsfl.engines.task import Matrix
from amsfl.methods import Method
from amsfl.planning import Judge, Policy
from amsfl.privacy.ledger import Ledger
from amsfl.record import RoundRecord, Summary
from amsfl.settings.checks import no_claim, private_settings
from amsfl.settings.definitions import Training
from amsfl.simulation import contributions
from amsfl.simulation.against_fedavg import forecast_fedavg
from amsfl.simulation.components import client_labels
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState


def summarise(
    setup: RunSetup, trial: TrialState, records: list[RoundRecord], wall: float, model: Matrix, details: Json
) -> Summary:
    """The machine-readable end of a run. All that depends on the machine's speed is under `wall`."""
    config = setup.configs[trial.index]
    last: Json = next((r.metrics for r in reversed(records) if r.metrics), {})
    names = client_labels(config, setup.data, len(trial.steps))
    ledger, best = setup.ledgers[trial.index], _best(setup, trial)
    notes = [setup.data.note, setup.method.facts.note, *run_notes(config, trial, ledger, trial.begun)]
    if config.stop_after and trial.stale >= config.stop_after:
        notes.append(
            f"Ended after {trial.stale} scored rounds without a better {best.get('by')}; "
            "--stop-after 0 goes on to the last round."
        )
    return Summary(
        **run_numbers(config, trial, ledger, trial.begun, names, records),
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
        verdict=verdict(
            (setup.method, setup.policy, setup.end),
            records,
            config.clock,
            setup.task.dim,
            trial.memory.judge,
            setup.profiles[trial.index].step_seconds.tolist(),
        ),
        seconds_to_target=trial.reached[config.clock] if trial.reached else None,
        wall={
            "seconds": wall,
            "client_steps_per_second": sum(trial.steps) / wall if wall else None,
            "peak_mb": peak_mb(),
        },
    )


def run_notes(config: Training, state: Any, ledger: Ledger, begun: Sequence[int]) -> list[str]:
    """What must be said of privacy and of the judge; `state`: a trial's, or a real server's, whose clients
    have `begun` so many steps."""
    spent = ledger.exhausted(ledger.units(begun, state.round))
    by_data = private_settings(config).stops_by_data
    return [
        f"Every client's epsilon was spent after {state.round} rounds." if spent else "",
        no_claim(ledger, by_data),
        planning.describe(state.memory.judge),
    ]


def run_numbers(
    config: Training,
    state: Any,
    ledger: Ledger,
    begun: Sequence[int],
    names: Sequence[str],
    records: list[RoundRecord],
) -> Json:
    """What of a summary is the same for simulated and real clients; arguments as for `run_notes`."""
    claims = ledger.claims(ledger.units(begun, state.round), private_settings(config).stops_by_data)
    sites, reached = ("every client",) if ledger.by_round else names, state.reached or {}
    return {
        "method": config.method,
        "seed": state.seed,
        "status": state.status,
        "rounds": state.round,
        "clock": config.clock,
        "virtual_seconds": state.seconds[config.clock],
        "virtual_seconds_by_clock": state.seconds,
        "target": config.target,
        "rounds_to_target": int(reached["rounds"]) if reached else None,
        "steps": dict(zip(names, state.steps, strict=True)),
        "epsilon": dict(zip(sites, claims, strict=False)),
        "noise": {name: each.noise for name, each in zip(sites, ledger.exposures, strict=False)},
        "joules": state.spent.get("joules"),
        "cost": state.spent.get("cost"),
        "joules_to_target": reached.get("joules"),
        "megabytes_to_target": reached.get("megabytes"),
        "bytes_up": sum(record.bytes_up for record in records),
        "bytes_down": sum(record.bytes_down for record in records),
    }


def verdict(
    run: tuple[Method, Policy, RoundEnd],
    rounds: Sequence[RoundRecord],
    clock: str,
    dim: int,
    judge: Judge,
    step_seconds: Sequence[float] | None = None,
) -> Json:
    """What guarded a planned run and what it saved.

    {} where nobody planned steps, or rounds do not wait for their cohort.
    """
    method, policy, end = run
    if policy.constant or not end.waits_for_all:
        return {}
    fedavg = methods.make("fedavg")._replace(transmit=method.transmit)
    bytes_each = 4.0 * dim + protocol.upload_bytes(fedavg, dim)
    forecast = forecast_fedavg(rounds, clock, bytes_each, step_seconds)
    if forecast is None:
        return {}
    guard = {
        "judge": method.judges,
        "returns": len(judge.backs),
        "restarts": len(judge.restarts),
        "rule": "" if method.combine is None else method.combine.name,
    }
    return {"guard": guard, **forecast._asdict()}


def _best(setup: RunSetup, trial: TrialState) -> Json:
    """The best round by the hold-out; {} where none was scored."""
    if trial.best_score is None:
        return {}
    name, larger = judged_by({}, setup.score, setup.by_loss)
    by = name if setup.by_loss else setup.score.title
    return {"round": trial.best_round, "score": trial.best_score if larger else -trial.best_score, "by": by}


def peak_mb() -> float | None:
    """The most memory this process has held; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, kilobytes elsewhere
