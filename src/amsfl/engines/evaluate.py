"""Scores of many models on a split, in blocks of rows, the rows sharded over the devices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl.engines.base import Scores
from amsfl.engines.devices import AXIS, abreast, put, summed, within_reach
from amsfl.engines.losses import surprise
from amsfl.engines.task import Task
from amsfl.engines.waves import dealt

BLOCK = 4096  # rows at once: the widest activations stay in the cache


def evaluator(task: Task, mesh: Mesh, workers: int = 1) -> Callable[[Any, str], Scores]:
    """evaluate(models [m, dim], split) -> Scores; models one after another, rows in parallel."""
    spread = P(AXIS)

    def shares(rows: tuple[Any, Any]) -> list[Any]:
        """Each worker's rows, on each device its part: once, here, and not at every evaluation."""
        blocks = _blocks(*rows, mesh.size * workers)
        return [put(share, mesh, spread) for share in dealt(blocks, workers)]

    splits = {name: shares(rows) for name, rows in task.evals.items()}

    def block_scores(params: Any, part: Any) -> tuple[jax.Array, jax.Array]:
        x, y, mask = part
        logits = task.model.apply(params, x)
        cell = y * task.classes + logits.argmax(-1)
        hit = jax.nn.one_hot(cell, task.classes**2, dtype=jnp.float32) * mask[:, None]
        return (surprise(logits, y) * mask).sum(), hit.sum(0)

    def count(models: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
        def one(model: jax.Array) -> tuple[jax.Array, jax.Array]:
            params = task.unravel(model)
            loss, cells = jax.lax.map(lambda part: block_scores(params, part), (x, y, mask))
            return loss.sum(), cells.sum(0)

        return jax.tree.map(lambda part: part[None], jax.lax.map(one, models))

    def score(parts: list[Any]) -> Scores:
        loss, cells = summed(parts)
        table = jnp.round(cells).astype(jnp.int32).reshape(-1, task.classes, task.classes)
        return Scores(loss / table.sum((1, 2)), table)

    counted = jax.shard_map(count, mesh=mesh, in_specs=(P(), spread, spread, spread), out_specs=spread)
    each = abreast(jax.jit(counted))
    together = jax.jit(score, out_shardings=NamedSharding(mesh, P()))

    def evaluate(models: Any, split: str) -> Scores:
        placed = put(models, mesh, P())
        parts = each((placed, *share) for share in splits[split])
        return Scores(*(np.asarray(part) for part in together(within_reach(parts, mesh))))

    return evaluate


def _blocks(x: Any, y: Any, devices: int) -> tuple[Any, Any, Any]:
    """[blocks, rows of a block, ...], padded at the end with masked rows; blocks divide by devices."""
    rows = len(y)
    size = min(BLOCK, -(-rows // devices))
    blocks = -(-rows // (size * devices)) * devices
    pad = blocks * size - rows
    mask = np.concatenate([np.ones(rows, x.dtype), np.zeros(pad, x.dtype)])
    x, y = np.pad(x, ((0, pad), (0, 0))), np.pad(y, (0, pad))
    shape = (blocks, size)
    return x.reshape(*shape, -1), y.reshape(shape), mask.reshape(shape)
