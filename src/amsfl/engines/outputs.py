"""A model's outputs for every row of a split, for scores that need more than `evaluate` keeps."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amsfl.engines.models import tensors
from amsfl.engines.task import Task
from amsfl.portable.compute import logits

Array = np.ndarray[Any, np.dtype[Any]]
BLOCK = 4096  # rows at once
ROWS = 1024  # of the hold-out, at most, to score coalitions of clients by


RowScorer = Callable[[Array], Array]  # models [m, dim] -> [m, rows]


def outputs(task: Task) -> Callable[[Array, str | None], Array]:
    """f(params [dim], split) -> [rows, classes]; of the training rows where the split is None.

    On a CPU dense networks are numpy's, so that nothing is compiled for one look. Elsewhere rows lie on the
    device as long as the function exists: fifty models look at them one after another.
    """
    layers = task.model.layers
    dense = bool(layers) and all(part.kind in ("dense", "relu") for part in layers)

    def rows(split: str | None) -> Array:
        return task.x if split is None else task.evals[split][0]

    def plain(params: Array, split: str | None) -> Array:
        named, x = tensors(task.model, task.arrays(np.asarray(params))), rows(split)
        return np.concatenate([logits(layers, named, x[at : at + BLOCK]) for at in range(0, len(x), BLOCK)])

    @cache
    def placed(split: str | None) -> jax.Array:
        x = rows(split)
        size = min(BLOCK, len(x))
        return jnp.asarray(np.pad(x, ((0, -len(x) % size), (0, 0))).reshape(-1, size, x.shape[1]))

    @jax.jit
    def whole(params: jax.Array, blocks: jax.Array) -> jax.Array:
        model = task.unravel(params)
        logits: jax.Array = jax.lax.map(lambda x: task.model.apply(model, x), blocks)
        return logits

    def compiled(params: Array, split: str | None) -> Array:
        flat_outputs: Array = np.asarray(whole(params, placed(split)))
        return flat_outputs.reshape(-1, flat_outputs.shape[-1])[: len(rows(split))]

    return plain if dense and jax.default_backend() == "cpu" else compiled


def holdout_scorer(task: Task) -> RowScorer:
    """Scores of every row of the hold-out, or of so many of them, by any models: compiled, since a ledger
    looks at it many times, and a BLAS library's threads wait busily after each product."""
    x, y = task.evals["holdout"]
    some = np.random.default_rng(0).permutation(len(y))[:ROWS]
    rows, labels = jnp.asarray(x[some]), y[some]

    @jax.jit
    def forward(models: jax.Array, x: jax.Array) -> jax.Array:
        said: jax.Array = jax.lax.map(lambda model: task.model.apply(task.unravel(model), x), models)
        return said

    def score(models: Array) -> Array:
        said = np.asarray(forward(np.asarray(models, task.dtype), rows))
        return score_rows(task.classes, said, labels, labels)

    return score


def score_rows(classes: int, said: Array, wanted: Array, every: Array) -> Array:
    """[models, rows] of their outputs: 1 where the class is right, else 0; of numbers, each row's part of R²,
    by the spread of `every` label. Their mean is the score."""
    if classes:
        return np.asarray(said.argmax(-1) == wanted, float)
    return np.asarray(1 - (said[..., 0] - wanted) ** 2 / max(float(np.var(every)), 1e-12), float)
