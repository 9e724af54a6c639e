"""Scores of models on a split: sums over blocks of rows."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import cache, partial
from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np

from amsfl.core.records import Array, Json, Tree
from amsfl.engines.contract import BLOCK, filled, number_scores, table_scores
from amsfl.engines.devices import Program, compiler_options, cores, kept
from amsfl.engines.task import Task, intermediate_bytes, room_for

PARTS = 8  # blocks at least of a large split, so that as many workers have something to do
SMALL = 2048  # rows that are not worth a call of their own: calls of 500 take half as long again
BESIDE = 64  # models at once on a GPU; on a CPU they take turns


@kept
def scoring(task: Task, beside: int) -> Program:
    """block(models, x, y, mask) -> sums."""

    def one(x: jax.Array, y: jax.Array, mask: jax.Array, model: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Sums over a block: the loss, of numbers also errors; else rows by class and guess."""
        outputs = task.model.apply(task.unravel(model), x)
        loss = task.scored(outputs, y)
        if not task.classes:
            error = outputs[:, 0] - y
            return (jnp.stack([loss, jnp.abs(error), error**2]) * mask).sum(1), jnp.zeros(0, jnp.int32)
        cells = y * task.classes + outputs.argmax(-1)
        table = jnp.zeros(task.classes**2, jnp.int32).at[cells].add(mask.astype(jnp.int32))
        return (loss * mask).sum()[None], table

    def block(models: jax.Array, *part: jax.Array) -> Tree:
        if beside == 1:
            return jax.tree.map(lambda leaf: leaf[None], one(*part, models[0]))  # type: ignore[call-arg]
        return jax.vmap(partial(one, *part))(models)  # type: ignore[call-arg]

    return jax.jit(block, compiler_options=compiler_options(True))


def evaluator(task: Task, pool: Executor) -> Callable[[Array, str], list[Json]]:
    """evaluate(models [m, dim], split) -> scores; one program for all splits and any number of models."""
    rows = max(len(y) for _, y in task.evals.values())
    most = min(BLOCK, max(-(-rows // PARTS), SMALL))
    size = -(-rows // -(-rows // most))  # all alike
    beside, workers = 1, cores()
    if jax.default_backend() != "cpu":
        params = jax.ShapeDtypeStruct((task.dim,), task.dtype)
        row = jax.ShapeDtypeStruct((size, *task.x.shape[1:]), task.dtype)
        each = intermediate_bytes(lambda x, p: task.model.apply(task.unravel(p), x), row, params)
        beside = room_for(each, min(BESIDE, len(task.seeds)))

    program = scoring(task.bare, beside)

    @cache
    def blocks(split: str) -> list[tuple[jax.Array, ...]]:
        x, y = task.evals[split]
        mask = np.ones(len(y), task.dtype)
        parts = [tuple(each[at : at + size] for each in (x, y, mask)) for at in range(0, len(y), size)]
        return [jax.device_put(tuple(filled(each, size) for each in part)) for part in parts]

    def evaluate(models: Array, split: str) -> list[Json]:
        groups = [filled(models[at : at + beside], beside) for at in range(0, len(models), beside)]
        calls = [(group, *part) for group in groups for part in blocks(split)]
        wide = bool(jax.config.read("jax_enable_x64"))

        def compute(some: Sequence[tuple[Array, ...]]) -> list[Tree]:
            with jax.enable_x64(wide):
                return [jax.tree.map(np.asarray, program(*arguments)) for arguments in some]

        found, others = compute(calls[:1]), calls[1:]  # the first compiles
        part = -(-len(others) // workers) or 1  # one task a core: blocks are too small to be handed over
        parts = [others[at : at + part] for at in range(0, len(others), part)]
        found += chain.from_iterable(pool.map(compute, parts))
        shape, count = (len(groups), len(blocks(split)), beside, -1), len(models)
        sums, tables = (np.stack(part).reshape(shape) for part in zip(*found, strict=True))
        rows = np.moveaxis(sums, 1, 3).reshape(-1, sums.shape[3], sums.shape[1])
        # exactly, so that how rows are cut rounds nothing
        exact = np.array([[*map(math.fsum, row)] for row in rows[:count]])
        mean = exact / len(task.evals[split][1])
        if not task.classes:
            return number_scores(*mean.T, task.spread(split), task.unit)  # type: ignore[call-arg]
        return table_scores(mean[:, 0], tables.sum(1).reshape(-1, task.classes, task.classes)[:count])

    return evaluate
