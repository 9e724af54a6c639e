"""The end of a run in numbers: summary.json."""

import sys

from amsfl import drift
from amsfl.core.records import Json
from amsfl.core.scores import judged_by
from amsfl.engines.task import Matrix
from amsfl.record import RoundRecord, Summary
from amsfl.settings.privacy import no_claim, private_settings
from amsfl.simulation import contributions
from amsfl.simulation.components import client_labels
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState
from amsfl.simulation.verdict import verdict


def summarise(
    setup: RunSetup, trial: TrialState, records: list[RoundRecord], wall: float, model: Matrix, details: Json
) -> Summary:
    """The machine-readable end of a run. All that depends on the machine's speed is under `wall`."""
    config = setup.configs[trial.index]
    last: Json = next((r.metrics for r in reversed(records) if r.metrics), {})
    reached = trial.reached
    client_steps = sum(trial.steps)
    names = client_labels(config, setup.data, len(trial.steps))
    ledger = setup.ledgers[trial.index]
    taken = ledger.units(trial.steps_begun, trial.round)
    spent = ledger.exhausted(taken)
    by_data = private_settings(config).stops_by_data
    claims = ledger.claims(taken, by_data)
    sites = ("every client",) if ledger.by_round else names
    over = f"Every client's epsilon was spent after {trial.round} rounds." if spent else ""
    rate = trial.memory.rate
    judged = drift.describe(trial.memory.judge, rate.first, rate.lr)
    best = _best(setup, trial)
    notes = [setup.data.note, setup.method.facts.note, over, no_claim(ledger, by_data), judged]
    if config.stop_after and trial.stale >= config.stop_after:
        notes.append(
            f"Ended after {trial.stale} scored rounds without a better {best.get('by')}; "
            "--stop-after 0 goes on to the last round."
        )
    return Summary(
        method=config.method,
        data=setup.data.name,
        synthetic=setup.data.synthetic,
        note=" ".join(filter(None, notes)),
        seed=trial.seed,
        status=trial.status,
        rounds=trial.round,
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
        clock=config.clock,
        virtual_seconds=trial.seconds[config.clock],
        virtual_seconds_by_clock=trial.seconds,
        target=config.target,
        seconds_to_target=reached[config.clock] if reached else None,
        rounds_to_target=int(reached["rounds"]) if reached else None,
        steps=dict(zip(names, trial.steps, strict=True)),
        epsilon=dict(zip(sites, claims, strict=False)),
        noise={name: each.noise for name, each in zip(sites, ledger.exposures, strict=False)},
        joules=trial.spent.get("joules"),
        cost=trial.spent.get("cost"),
        joules_to_target=reached.get("joules") if reached else None,
        megabytes_to_target=reached.get("megabytes") if reached else None,
        bytes_up=sum(r.bytes_up for r in records),
        bytes_down=sum(r.bytes_down for r in records),
        wall={
            "seconds": wall,
            "client_steps_per_second": client_steps / wall if wall else None,
            "peak_mb": peak_mb(),
        },
    )


def _best(setup: RunSetup, trial: TrialState) -> Json:
    """The best round by the hold-out; {} where none was scored."""
    if trial.best_score is None:
        return {}
    name, larger = judged_by({}, setup.judge_by, setup.score)
    by = name if setup.judge_by else setup.score.title
    return {"round": trial.best_round, "score": trial.best_score if larger else -trial.best_score, "by": by}


def peak_mb() -> float | None:
    """The most memory this process has held; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, kilobytes elsewhere
