"""Scores of many models on a split, in blocks of rows, the rows sharded over the devices."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl.engines.base import Errors, Scores
from amsfl.engines.devices import AXIS, abreast, put, summed, within_reach
from amsfl.engines.task import Task
from amsfl.engines.waves import dealt

BLOCK = 4096  # rows at once: the widest activations stay in the cache
PARTS = 8  # blocks at least, so that as many workers have something to do


def evaluator(task: Task, mesh: Mesh, workers: int = 1) -> Callable[[Any, str], Scores]:
    """evaluate(models [m, dim], split) -> Scores; models one after another, rows in parallel."""
    spread = P(AXIS)

    def shares(rows: tuple[Any, Any]) -> list[Any]:
        """Each worker's rows, on each device its part: once, here, and not at every evaluation."""
        blocks = _blocks(*rows, mesh.size * workers)
        return [put(share, mesh, spread) for share in dealt(blocks, workers)]

    splits = {name: shares(rows) for name, rows in task.evals.items()}

    def block_scores(params: Any, part: Any) -> tuple[jax.Array, jax.Array]:
        """Sums over a block: the loss, of numbers also absolute and squared errors; hits by class."""
        x, y, mask = part
        logits = task.model.apply(params, x)
        loss = task.scored(logits, y)
        if not task.classes:
            error = logits[:, 0] - y
            found = jnp.stack([loss, jnp.abs(error), error**2]) * mask
            return found.sum(1), jnp.zeros(0, jnp.float32)
        cell = y * task.classes + logits.argmax(-1)
        hit = jax.nn.one_hot(cell, task.classes**2, dtype=jnp.float32) * mask[:, None]
        return (loss * mask).sum()[None], hit.sum(0)

    def count(models: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array, place: jax.Array) -> Any:
        """Losses by block, zero for the blocks of others, so that adding them all up rounds nothing."""

        def one(model: jax.Array) -> tuple[jax.Array, jax.Array]:
            params = task.unravel(model)
            loss, cells = jax.lax.map(lambda part: block_scores(params, part), (x, y, mask))
            blocks = len(place) * mesh.size * workers
            return jnp.zeros((blocks, *loss.shape[1:]), loss.dtype).at[place].set(loss), cells.sum(0)

        return jax.tree.map(lambda part: part[None], jax.lax.map(one, models))

    def score(parts: list[Any]) -> Scores:
        sums, cells = summed(parts)
        table = jnp.round(cells).astype(jnp.int32)
        return Scores(sums, table.reshape(-1, task.classes, task.classes) if task.classes else table)

    counted = jax.shard_map(count, mesh=mesh, in_specs=(P(), *[spread] * 4), out_specs=spread)
    each = abreast(jax.jit(counted))
    together = jax.jit(score, out_shardings=NamedSharding(mesh, P()))

    def evaluate(models: Any, split: str) -> Scores:
        placed = put(models, mesh, P())
        parts = each((placed, *share) for share in splits[split])
        found, table, _ = together(within_reach(parts, mesh))
        rows = len(task.evals[split][1])
        mean = np.array([[math.fsum(each) / rows for each in sums.T] for sums in np.asarray(found)])
        return Scores(
            mean[:, 0], np.asarray(table), None if task.classes else errors(task, split, *mean[:, 1:].T)
        )

    return evaluate


def errors(task: Task, split: str, absolute: Any, squared: Any) -> Errors:
    """Mean errors of standardised numbers in the user's own units."""
    spread = float(np.var(np.asarray(task.evals[split][1], np.float64)))
    return Errors(absolute * task.unit, squared * task.unit**2, spread * task.unit**2)


def _blocks(x: Any, y: Any, devices: int) -> tuple[Any, ...]:
    """[blocks, rows of a block, ...], padded at the end with masked rows, and the number of each block.

    Blocks divide by devices; what one holds does not depend on how many share them, and neither do its sums.
    """
    rows = len(y)
    size = min(BLOCK, -(-rows // PARTS))
    blocks = -(-rows // (size * devices)) * devices
    pad = blocks * size - rows
    mask = np.concatenate([np.ones(rows, x.dtype), np.zeros(pad, x.dtype)])
    x, y = np.pad(x, ((0, pad), (0, 0))), np.pad(y, (0, pad))
    shape = (blocks, size)
    return x.reshape(*shape, -1), y.reshape(shape), mask.reshape(shape), np.arange(blocks)
