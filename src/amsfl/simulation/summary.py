"""The end of a run in numbers: summary.json, and what one number hides (confusion, AUC, calibration, columns,
clients' rows)."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from amsfl import planning
from amsfl.core.records import Json
from amsfl.core.scores import judged_by
from amsfl.data.dataset import is_own_table
from amsfl.engines import devices
from amsfl.engines.contract import Forward, outputs
from amsfl.engines.models import tensors
from amsfl.engines.task import Matrix
from amsfl.portable.evaluation import of_classes, permutation_importance
from amsfl.portable.network import logits
from amsfl.privacy.mechanisms import stops_by_data
from amsfl.record import RoundRecord, Summary
from amsfl.record.schema import Array
from amsfl.settings.checks import no_claim
from amsfl.simulation.components import client_labels, precision
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState

ROWS, COLUMNS = 2000, 300  # of a table at most, for importances: some seconds


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
    units, by_data = ledger.units(trial.begun, trial.round), stops_by_data(config)
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
        steps=dict(zip(names, trial.steps.tolist(), strict=True)),
        epsilon=dict(zip(sites, ledger.claims(units, by_data), strict=False)),
        noise={name: each.noise for name, each in zip(sites, ledger.exposures, strict=False)},
        joules=trial.spent.get("joules"),
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
        wall={
            "seconds": wall,
            "client_steps_per_second": int(trial.steps.sum()) / wall if wall else None,
            "peak_mb": peak_mb(),
        },
    )


def peak_mb() -> float | None:
    """The most memory this process has held; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, kilobytes elsewhere


def detailed_scores(setup: RunSetup, models: Sequence[Array] | Array, columns: bool = False) -> list[Json]:
    """The details of every trial's model, {} where they are not asked for; `columns`: which ones it goes by,
    too. numpy lets go of the GIL, and has one thread: more would wait for each other, which takes processor
    time like work does."""
    forward = outputs(setup.task)

    def one(trial: int) -> Json:
        with precision(setup.config):  # which jax keeps for each thread
            asked = "scores" in setup.configs[trial].details
            return details(setup, trial, np.asarray(models[trial]), forward, columns) if asked else {}

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(min(len(models), devices.cores())) as pool:
        return list(pool.map(one, range(len(models))))


def details(setup: RunSetup, trial: int, params: Array, forward: Forward, columns: bool) -> Json:
    """By split, confusion, AUC and calibration (of classes); by client, scores on its own training rows.

    What does not exist, such as the AUC of a class that a split lacks, is None.
    """
    if not np.isfinite(params).all():
        return {}
    task = setup.task
    detailed: Json = {"splits": {}, "clients": {}}
    if columns and is_own_table(setup.data):
        detailed["importance"] = column_importance(setup, params)
    if task.classes:
        detailed["splits"] = {
            split: of_classes(forward(params, x).astype(np.float64), np.asarray(y))
            for split, (x, y) in task.evals.items()
        }
    if setup.mechanism is not None:  # scores on training rows would leave without noise
        return detailed
    order, sizes = task.shards.order[trial], task.shards.rows[trial].tolist()
    names = client_labels(setup.configs[trial], setup.data, len(sizes))
    said, y = forward(params, task.x[: order.max() + 1])[order], np.asarray(task.y)[order]
    ends = np.cumsum(sizes)[:-1]
    for name, *mine in zip(names, np.split(said, ends), np.split(y, ends), strict=True):
        detailed["clients"][name] = {"rows": len(mine[1]), **_own_score(task.classes, *mine)}
    return detailed


def _own_score(classes: int, said: Array, y: Array) -> Json:
    """Accuracy of a client's own rows, of numbers R²: None where they are all the same."""
    if classes:
        return {"accuracy": float((said.argmax(1) == y).mean())}
    spread = float(y.var())
    return {"r2": 1 - float(((said[:, 0] - y) ** 2).mean()) / spread if spread else None}


def column_importance(setup: RunSetup, params: Array) -> list[Json]:
    """Which columns of a table the model goes by, on rows of the hold-out.

    Empty where the data are no table of columns, or the network is the user's own.
    """
    recipe, model, task = setup.data.recipe, setup.task.model, setup.task
    if recipe is None or not model.layers or not 0 < len(recipe.columns) <= COLUMNS:
        return []
    x, y = setup.data.evals["holdout"]
    some = np.linspace(0, len(y) - 1, min(len(y), ROWS)).astype(int)
    x, y, named = x[some], np.asarray(y)[some], tensors(model, task.unravel(params))

    def predict(x: Array) -> Array:
        return np.asarray(logits(model.layers, named, x), np.float64)

    owners = np.zeros(len(y), np.int64)  # rows of the hold-out are the server's
    importances = permutation_importance(predict, x, y, recipe, owners)
    return [each._asdict() for each in importances]


def ranked(setup: RunSetup, params: Array, split: str) -> Json:
    """AUC of a model on a split, where the run goes by it.

    On two busy cores 0.2 s for 25,000 rows of five classes: too much for those who do not ask.
    """
    if not np.isfinite(params).all():
        return {}
    x, y = setup.task.evals[split]
    scores = of_classes(outputs(setup.task)(params, x).astype(np.float64), np.asarray(y))
    return {name: scores[name] for name in ("auc", "macro_auc")}
