"""Scores of many models on a split, in blocks of rows, the rows sharded over the devices.

How many models are asked about is no part of a program's shape: trials that end one by one would otherwise
have it compiled anew for every number of those that are left.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl.core.records import Array, Number, Tree
from amsfl.engines.devices import AXIS, jit_small, lanes, on_mesh, put, sharded, summed
from amsfl.engines.memory import intermediate_bytes, room_for
from amsfl.engines.packing import split_over
from amsfl.engines.scores import Scores, errors
from amsfl.engines.task import Task
from amsfl.engines.worker_threads import in_threads

BLOCK = 4096  # rows at once: the widest activations stay in the cache
BESIDE = 64  # models at once on a GPU; on a CPU they take turns
SPARE = 1.25  # times its rows that a split may be padded to
EVERYWHERE = P()
PARTS = 8  # blocks at least, so that as many workers have something to do


def evaluator(task: Task, mesh: Mesh, workers: int = 1, spec: P = EVERYWHERE) -> Callable[..., Scores]:
    """evaluate(models [m, dim], split, places) -> Scores of the models at those places, of all if None.

    `spec` is how models lie.
    """
    spread = P(AXIS)
    wide = mesh.local_devices[0].platform != "cpu"
    block = min(BLOCK, max(len(y) for _, y in task.evals.values()))
    row = jax.ShapeDtypeStruct((block, *task.x.shape[1:]), task.dtype)
    params = jax.ShapeDtypeStruct((task.dim,), task.dtype)
    beside = room_for(
        intermediate_bytes(lambda x, p: task.model.apply(task.unravel(p), x), row, params), BESIDE
    )

    splits = {
        # on each device its part: once, here, and not at every evaluation
        name: [put(share, mesh, spread) for share in split_over(blocks, workers)]
        for name, blocks in _alike(
            {n: _blocks(*e, lanes(mesh) * workers) for n, e in task.evals.items()}
        ).items()
    }

    def block_scores(params: Tree, part: Tree) -> tuple[jax.Array, jax.Array]:
        """Sums over a block: the loss, of numbers also absolute and squared errors; every row's cell."""
        x, y, mask = part
        logits = task.model.apply(params, x)
        loss = task.scored(logits, y)
        if not task.classes:
            error = logits[:, 0] - y
            sums = jnp.stack([loss, jnp.abs(error), error**2]) * mask
            return sums.sum(1), jnp.zeros(0, jnp.float32)
        return (loss * mask).sum()[None], y * task.classes + logits.argmax(-1)

    def count(models: jax.Array, asked: jax.Array, used: jax.Array, *share: jax.Array) -> Tree:
        """Losses by block, zero for the blocks of others, so that adding them all up rounds nothing."""

        *rows, place = share

        def one(model: jax.Array) -> tuple[jax.Array, jax.Array]:
            params = task.unravel(model)
            loss, cells = jax.lax.map(lambda part: block_scores(params, part), tuple(rows))
            blocks = len(place) * lanes(mesh) * workers
            # counted at the end: a table for every row of a block is too large where classes are many
            none = jnp.zeros(task.classes**2, jnp.float32)
            table = none.at[cells].add(rows[2].astype(none.dtype)) if task.classes else cells[0]
            return jnp.zeros((blocks, *loss.shape[1:]), loss.dtype).at[place].set(loss), table

        if wide:
            sums = jax.vmap(one)(models[asked])
        else:
            shapes = jax.eval_shape(one, models[0])
            empty = jax.tree.map(lambda part: jnp.zeros((len(asked), *part.shape), part.dtype), shapes)

            def further(index: Number, sums: Tree) -> Tree:
                fresh = one(models[asked[index]])
                return jax.tree.map(lambda whole, part: whole.at[index].set(part), sums, fresh)

            sums = jax.lax.fori_loop(0, used, further, jax.lax.pcast(empty, AXIS, to="varying"))
        return jax.tree.map(lambda part: part[None], sums)

    def score(parts: list[Tree]) -> Scores:
        sums, cells = summed(parts)
        table = jnp.round(cells).astype(jnp.int32)
        return Scores(sums, table.reshape(-1, task.classes, task.classes) if task.classes else table)

    counted = sharded(count, mesh, (P(), P(), P(), *[spread] * 4), spread)
    each = in_threads(jax.jit(counted))
    together = jit_small(score, mesh, out_shardings=NamedSharding(mesh, P()))

    def some(models: Array, split: str, places: Sequence[int], room: int) -> tuple[Tree, Tree]:
        """Sums of losses and tables of so many models that there is room for."""
        asked = np.zeros(room, np.int32)
        asked[: len(places)] = places
        which = put((asked, np.int32(len(places))), mesh, P())
        parts = each((models, *which, *share) for share in splits[split])
        sums, tables, _ = together(on_mesh(parts, mesh))
        return sums, tables

    def evaluate(models: Array, split: str, places: Sequence[int] | None = None) -> Scores:
        placed, places = put(models, mesh, spec), range(len(models)) if places is None else places
        room = min(beside, len(models)) if wide else len(models)
        turns = [some(placed, split, places[at : at + room], room) for at in range(0, len(places), room)]
        # all of them are started before the first is waited for
        sums, tables = (np.concatenate(part)[: len(places)] for part in zip(*turns, strict=True))
        rows = len(task.evals[split][1])
        mean = np.array([[math.fsum(column) / rows for column in each_.T] for each_ in sums])
        return Scores(mean[:, 0], tables, None if task.classes else errors(task, split, *mean[:, 1:].T))

    return evaluate


def _alike(splits: dict[str, tuple[Array, ...]]) -> dict[str, tuple[Array, ...]]:
    """Splits of about the same size as blocks of one shape, so that one program scores them all.

    What is added is masked, and stands at the end of a block or after all others: sums stay as they are.
    """
    shapes = [mask.shape for _, _, mask, _ in splits.values()]
    blocks, size = (max(sides) for sides in zip(*shapes, strict=True))

    def padded(split: tuple[Tree, ...]) -> tuple[Tree, ...]:
        x, y, mask, _ = split
        if blocks * size > SPARE * mask.size:
            return split
        more = (0, blocks - len(mask)), (0, size - mask.shape[1])
        return np.pad(x, (*more, (0, 0))), np.pad(y, more), np.pad(mask, more), np.arange(blocks)

    return {name: padded(split) for name, split in splits.items()}


def _blocks(x: Array, y: Array, devices: int) -> tuple[Tree, ...]:
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
