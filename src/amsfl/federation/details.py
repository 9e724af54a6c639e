"""What one number hides, taken once at the end: confusion, AUC, calibration, every client's own rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import rankdata

from amsfl.engines import Scores, metrics
from amsfl.engines.base import Errors
from amsfl.engines.models import tensors
from amsfl.federation.setup import Parts, client_names
from amsfl.portable.compute import logits

Array = np.ndarray[Any, np.dtype[Any]]
BLOCK = 4096  # rows at once
BINS = 10  # of confidence, equally wide


def details(parts: Parts, trial: int, params: Array) -> dict[str, Any]:
    """By split, confusion, AUC and calibration (of classes); by client, scores on its own training rows.

    What does not exist, such as the AUC of a class that a split lacks, is None.
    """
    if not np.isfinite(params).all():
        return {}
    task, forward = parts.task, _forward(parts, params)
    found: dict[str, Any] = {"splits": {}, "clients": {}}
    if task.classes:
        found["splits"] = {
            split: of_classes(forward(x), np.asarray(y)) for split, (x, y) in task.evals.items()
        }
    shards = task.shards
    rows = [
        shards.order[trial, start : start + size]
        for start, size in zip(shards.start[trial], shards.size[trial], strict=True)
    ]
    outputs, y = forward(task.x), np.asarray(task.y)
    names = client_names(parts.configs[trial], parts.data) or tuple(map(str, range(len(rows))))
    found["clients"] = {
        name: {"rows": len(mine), **_scores(parts, outputs[mine], y[mine])}
        for name, mine in zip(names, rows, strict=True)
    }
    return found


def ranked(parts: Parts, params: Array, split: str) -> dict[str, Any]:
    """AUC of a model on a split, where the run goes by it.

    On two busy cores 0.2 s for 25,000 rows of five classes: too much for those who do not ask.
    """
    if not np.isfinite(params).all():
        return {}
    x, y = parts.task.evals[split]
    found = of_classes(_forward(parts, params)(x), np.asarray(y))
    return {name: found[name] for name in ("auc", "macro_auc")}


def of_classes(outputs: Array, y: Array) -> dict[str, Any]:
    """Confusion (true class by predicted one), one-against-rest AUC a class, and how sure is how right."""
    chances = np.exp(outputs - outputs.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    guess, sure = chances.argmax(1), chances.max(1)
    table = np.zeros((outputs.shape[1],) * 2, np.int64)
    np.add.at(table, (y, guess), 1)
    each = [auc(y == place, chances[:, place]) for place in range(outputs.shape[1])]
    known = [value for value in each if value is not None]
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    curve = [
        [float(sure[here].mean()), float((guess == y)[here].mean()), int(here.sum())]
        for here in (place == number for number in range(BINS))
        if here.any()
    ]
    return {
        "confusion": table.tolist(),
        "auc": each,
        "macro_auc": float(np.mean(known)) if known else None,
        "ece": sum(rows * abs(told - right) for told, right, rows in curve) / len(y),
        "reliability": curve,  # of every bin that has rows: mean confidence, share that is right, rows
    }


def auc(positive: Array, score: Array) -> float | None:
    """The chance that a row of the class is ranked above another one; ties count half (Mann and Whitney)."""
    yes = int(positive.sum())
    no = len(positive) - yes
    if not yes or not no:
        return None
    return float((rankdata(score)[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def _scores(parts: Parts, outputs: Array, y: Array) -> dict[str, Any]:
    """A client's few scores, as the splits have them."""
    if parts.task.classes:
        table = np.zeros((parts.task.classes,) * 2, np.int64)
        np.add.at(table, (y, outputs.argmax(1)), 1)
        found, names = metrics(Scores(np.zeros(1), table[None]), 0), ("accuracy", "macro_f1")
    else:
        off, unit = outputs[:, 0] - y, parts.task.unit
        errors = Errors(
            np.abs(off).mean()[None] * unit, (off**2).mean()[None] * unit**2, float(y.var()) * unit**2
        )
        found, names = metrics(Scores(np.zeros(1), None, errors), 0), ("r2", "mae")
    return {name: found[name] for name in names}


def _forward(parts: Parts, params: Array) -> Callable[[Array], Array]:
    """rows -> outputs, block by block; dense networks in numpy, so that nothing is compiled for one look."""
    import jax
    import jax.numpy as jnp

    task = parts.task
    model, apply = task.unravel(jnp.asarray(params)), jax.jit(task.model.apply)
    layers, named = task.model.layers, tensors(task.model, model)
    dense = bool(layers) and all(part.kind in ("dense", "relu") for part in layers)

    def block(x: Array) -> Array:
        found = logits(layers, named, x) if dense else apply(model, jnp.asarray(x))
        return np.asarray(found, np.float64)

    return lambda x: np.concatenate([block(x[at : at + BLOCK]) for at in range(0, len(x), BLOCK)])
