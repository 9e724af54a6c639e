"""What one number hides, taken once at the end: confusion, AUC, calibration, every client's own rows."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from amsfl.core.records import Json
from amsfl.data.describe import is_own_table
from amsfl.engines import Errors, Scores, Task, devices, metrics
from amsfl.engines.outputs import outputs
from amsfl.engines.scores import class_metrics
from amsfl.record.schema import Array
from amsfl.simulation.class_scores import of_classes
from amsfl.simulation.column_importance import column_importance
from amsfl.simulation.components import client_labels, precision
from amsfl.simulation.setup import RunSetup


def detailed_scores(setup: RunSetup, models: Sequence[Array] | Array) -> list[Json]:
    """The details of every trial's model, {} where they are not asked for; numpy lets go of the GIL."""
    forward = outputs(setup.task)

    def one(trial: int) -> Json:
        with precision(setup.config):  # which jax keeps for each thread
            asked = setup.configs[trial].details
            return details(setup, trial, np.asarray(models[trial]), forward) if asked else {}

    with ThreadPoolExecutor(min(len(models), devices.cores())) as pool:
        return list(pool.map(one, range(len(models))))


def details(
    setup: RunSetup, trial: int, params: Array, forward: Callable[[Array, str | None], Array]
) -> Json:
    """By split, confusion, AUC and calibration (of classes); by client, scores on its own training rows.

    What does not exist, such as the AUC of a class that a split lacks, is None.
    """
    if not np.isfinite(params).all():
        return {}
    task = setup.task
    detailed: Json = {"splits": {}, "clients": {}}
    if is_own_table(setup.data):
        detailed["importance"] = column_importance(setup, params)
    if task.classes:
        detailed["splits"] = {
            split: of_classes(_wide(forward(params, split)), np.asarray(y))
            for split, (_, y) in task.evals.items()
        }
    if setup.mechanism is not None:  # scores on training rows would leave without noise
        return detailed
    order, sizes = task.shards.order[trial], task.shards.rows[trial].tolist()
    names = client_labels(setup.configs[trial], setup.data, len(sizes))
    own = (_by_client if task.classes else _errors_by_client)(task, forward(params, None), order, sizes)
    detailed["clients"] = {
        name: {"rows": size, **scores} for name, size, scores in zip(names, sizes, own, strict=True)
    }
    return detailed


def ranked(setup: RunSetup, params: Array, split: str) -> Json:
    """AUC of a model on a split, where the run goes by it.

    On two busy cores 0.2 s for 25,000 rows of five classes: too much for those who do not ask.
    """
    if not np.isfinite(params).all():
        return {}
    scores = of_classes(_wide(outputs(setup.task)(params, split)), np.asarray(setup.task.evals[split][1]))
    return {name: scores[name] for name in ("auc", "macro_auc")}


def _wide(logits: Array) -> Array:
    return np.asarray(logits, np.float64)


def _by_client(task: Task, logits: Array, order: Array, sizes: list[int]) -> list[Json]:
    """Clients' few scores, as the splits have them; `order`: all rows, one client's after another's."""
    y, guess = np.asarray(task.y, np.int64)[order], logits.argmax(1)[order]
    owner = np.repeat(np.arange(len(sizes)), sizes) * task.classes

    def count(cells: Array) -> Array:
        return np.bincount(cells, minlength=len(sizes) * task.classes).reshape(len(sizes), task.classes)

    hits, true, guessed = count((owner + y)[y == guess]), count(owner + y), count(owner + guess)
    each_of = class_metrics(hits, true, guessed, [0.0] * len(sizes))
    return [{name: each[name] for name in ("accuracy", "macro_f1")} for each in each_of]


def _errors_by_client(task: Task, logits: Array, order: Array, sizes: list[int]) -> list[Json]:
    """The same where numbers are predicted."""
    scores = []
    for mine in np.split(order, np.cumsum(sizes)[:-1]):
        y = np.asarray(task.y)[mine]
        off, unit = _wide(logits[mine])[:, 0] - y, task.unit
        errors = Errors(
            np.abs(off).mean()[None] * unit, (off**2).mean()[None] * unit**2, float(y.var()) * unit**2
        )
        (each,) = metrics(Scores(np.zeros(1), None, errors))
        scores.append({name: each[name] for name in ("r2", "mae")})
    return scores
