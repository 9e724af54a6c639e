"""What one number hides, taken once at the end: confusion, AUC, calibration, every client's own rows."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from amsfl.core.records import Json
from amsfl.engines import Errors, Scores, Task, devices, metrics
from amsfl.engines.outputs import outputs
from amsfl.simulation.components import client_names, precision
from amsfl.simulation.setup import RunSetup

Array = np.ndarray[Any, np.dtype[Any]]
BINS = 10  # of confidence, equally wide


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
    if task.classes:
        detailed["splits"] = {
            split: of_classes(_wide(forward(params, split)), np.asarray(y))
            for split, (_, y) in task.evals.items()
        }
    if setup.mechanism is not None:  # scores on training rows would leave without noise
        return detailed
    order, sizes = task.shards.order[trial], task.shards.rows[trial].tolist()
    names = client_names(setup.configs[trial], setup.data) or tuple(map(str, range(len(sizes))))
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


def of_classes(said: Array, y: Array) -> Json:
    """Confusion (true class by predicted one), one-against-rest AUC a class, and how sure is how right."""
    chances = np.exp(said - said.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    columns = np.ascontiguousarray(chances.T)  # numpy is quicker along many rows than across few classes
    guess, sure = chances.argmax(1), columns.max(0)
    table = _table(y, guess, len(columns))
    each = [auc(y == place, column) for place, column in enumerate(columns)]
    known = [value for value in each if value is not None]
    place = np.clip((sure * BINS).astype(int), -1, BINS - 1) + 1  # 0: not a number
    order = np.argsort(place.astype(np.uint8), kind="stable")
    ends = np.cumsum(np.bincount(place, minlength=BINS + 1))[:-1]
    bins = zip(*(np.split(part[order], ends)[1:] for part in (sure, guess == y)), strict=True)
    curve = [
        [float(confidence.mean()), float(right.mean()), len(confidence)]
        for confidence, right in bins
        if len(confidence)
    ]
    return {
        "confusion": table.tolist(),
        "auc": each,
        "macro_auc": float(np.mean(known)) if known else None,
        "ece": sum(rows * abs(confidence - right) for confidence, right, rows in curve) / len(y),
        "reliability": curve,  # of every bin that has rows: mean confidence, share that is right, rows
    }


def auc(positive: Array, score: Array) -> float | None:
    """The chance that a row of the class is ranked above another one; ties count half (Mann and Whitney).

    Only the rows of the smaller side are looked up among the others: sorting without places takes a tenth of
    the time. All counts are whole numbers and halves, so nothing is rounded before the end.
    """
    yes, no = np.sort(score[positive]), np.sort(score[~positive])
    if not len(yes) or not len(no):
        return None
    few, many = (yes, no) if len(yes) <= len(no) else (no, yes)
    left = np.searchsorted(many, few)
    tied = many[np.minimum(left, len(many) - 1)] == few
    below = 2 * left.sum() + (np.searchsorted(many, few[tied], "right") - left[tied]).sum()
    pairs = len(yes) * len(no)
    return float((below / 2 if few is yes else pairs - below / 2) / pairs)


def _wide(said: Array) -> Array:
    return np.asarray(said, np.float64)


def _table(y: Array, guess: Array, classes: int) -> Array:
    """Rows by true class and predicted one."""
    return np.bincount(y * classes + guess, minlength=classes**2).reshape(classes, classes)


def _by_client(task: Task, said: Array, order: Array, sizes: list[int]) -> list[Json]:
    """Clients' few scores, as the splits have them; `order`: all rows, one client's after another's."""
    cells = task.classes**2
    cell = (np.asarray(task.y, np.int64) * task.classes + said.argmax(1))[order]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    tables = np.bincount(owner * cells + cell, minlength=len(sizes) * cells)
    scores = Scores(np.zeros(len(sizes)), tables.reshape(-1, task.classes, task.classes))
    return [{name: each[name] for name in ("accuracy", "macro_f1")} for each in metrics(scores)]


def _errors_by_client(task: Task, said: Array, order: Array, sizes: list[int]) -> list[Json]:
    """The same where numbers are predicted."""
    scores = []
    for mine in np.split(order, np.cumsum(sizes)[:-1]):
        y = np.asarray(task.y)[mine]
        off, unit = _wide(said[mine])[:, 0] - y, task.unit
        errors = Errors(
            np.abs(off).mean()[None] * unit, (off**2).mean()[None] * unit**2, float(y.var()) * unit**2
        )
        (each,) = metrics(Scores(np.zeros(1), None, errors))
        scores.append({name: each[name] for name in ("r2", "mae")})
    return scores
