"""A client's steps as one kernel of a GPU: its model stays in the registers of one processor from the first
step to the last.

XLA makes some thirty kernels of a step. Of a small network each is over before the next one has begun, and of
thousands of clients at once each reads and writes all their models. Here every client is a program of its own
that fetches its minibatches by itself, so clients of unequal steps do not wait for each other. What a step is
stays with client_program and the method: those lines are traced here as they are everywhere else. On one H200
five small clients take 370,000 steps a second by it and 96,000 without, 2,000 trials 18 million and 5.

Sides of matrices are filled up with zeros to powers of two, 16 at least, as tensor cores want them. What is
filled in stays zero: neither a row of zeros nor a unit that is never on has a gradient.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amsfl import sampling
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import losses
from amsfl.engines.task import Task
from amsfl.methods import Federation

TRIED = ("9.0",)  # compute capabilities
NUMBERS = 100_000  # of a model, its gradient, and a minibatch at every layer: with more, XLA's are as fast
FEW = 40_000  # up to which four warps are faster than eight
ROUNDED = (None, "default", "tensorfloat32", "BF16_BF16_F32")  # what tensor cores do; others are slow here
LEAST = 16  # of a side
NOWHERE = -1e30  # the logit of a class that was filled in


Look = Callable[..., tuple[Array, Tree]]


def serves(task: Task, federation: Federation, batch: int) -> bool:
    """Whether these clients' steps are to be a kernel on this device."""
    device, method = jax.local_devices()[0], federation.method
    products = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]  # made at run time
    if getattr(device, "compute_capability", "") not in TRIED or products not in ROUNDED:
        return False
    plain = method.objective is None and method.client_optimizer is None and not federation.private_rows
    return plain and _ours(method) and fits(task, batch)


def _ours(method: Any) -> bool:
    """Whether all of its lines are of this package: nobody else's were tried."""
    inner = (getattr(method, each.name) for each in fields(method))
    return type(method).__module__.startswith("amsfl.") and all(
        _ours(each) for each in inner if is_dataclass(each)
    )


def fits(task: Task, batch: int) -> bool:
    """Whether a network is a small perceptron that tells classes apart."""
    kinds, classes = {part.kind for part in task.model.layers}, task.loss is losses.cross_entropy
    perceptron = bool(kinds) and kinds <= {"dense", "relu"} and task.dtype == np.float32
    return perceptron and classes and task.classes > 1 and numbers(task, batch) <= NUMBERS


def numbers(task: Task, batch: int) -> int:
    """Of a model and its gradient, filled up, and of what a minibatch is at every layer."""
    sides = [shape for part in task.model.layers if part.name for shape in (part.inputs, part.outputs)]
    inside = sum(prod(map(side, leaf.shape)) for leaf in jax.tree.leaves(task.shapes))
    return 2 * inside + side(batch) * sum(map(side, [*sides[:1], *sides[1::2]]))


def loop(task: Task, batch: int, further: Callable[..., Tree]) -> Callable[..., Tree]:
    """run(given, rows, lower, upper, now) -> now after further(look, given, rows, number, now) of all numbers
    between; `look(params, given, rows, number)` is a minibatch's loss and gradient."""
    from jax.experimental import pallas as pl  # only GPUs need it, and it takes a while
    from jax.experimental.pallas import triton

    warps = 4 if numbers(task, batch) <= FEW else 8

    def look(params: Tree, given: Any, rows: Any, step: Number) -> tuple[Tree, Tree]:
        (_, job, *_), (x, y, order) = given, rows
        shape = side(batch), side(x.shape[1])
        each = jnp.arange(shape[0], dtype=jnp.uint32)
        picked = sampling.draw(job.key, step.astype(jnp.uint32), each, job.size, task.shuffled)
        row, column = order[job.trial, job.start + picked], places(shape, 1)
        where = jax.lax.broadcast_in_dim(row, shape, (0,)), column
        values, labels = triton.load(x.at[where], mask=column < x.shape[1], other=0), y[row]

        def objective(params: Tree) -> Tree:
            logits = task.model.apply(params, values)
            of_rows = task.loss(jnp.where(places(logits.shape, 1) < task.classes, logits, NOWHERE), labels)
            return jnp.where(places(of_rows.shape, 0) < batch, of_rows, 0).sum() * (1 / batch)

        return jax.value_and_grad(objective)(params)

    def read(ref: Array, like: Array) -> Array:
        return triton.load(ref.at[lie(like)[0]], mask=lie(like)[1], other=0) if like.ndim else ref[0]

    def write(ref: Array, value: Array, like: Array) -> None:
        if like.ndim:
            triton.store(ref.at[lie(like)[0]], value, mask=lie(like)[1])
        else:
            ref[0] = value

    def run(given: Tree, rows: Any, lower: Number, upper: Number, now: Tree) -> Tree:
        inputs = jax.tree.map(jnp.asarray, (given, lower, upper, now))
        shapes, results = jax.eval_shape(lambda *all_: all_, inputs, inputs[-1])
        flat = [jnp.atleast_1d(leaf) for leaf in jax.tree.leaves(inputs) if leaf.size]

        def body(*refs: Array) -> None:
            left = iter(refs[len(rows) :])
            given, lower, upper, begin = jax.tree.map(
                lambda like: read(next(left), like) if like.size else 0.0, shapes
            )
            step = partial(further, look, given, refs[: len(rows)])
            after = jax.lax.fori_loop(lower, upper, step, begin)
            jax.tree.map(lambda value, like: write(next(left), value, like), after, results)

        call = pl.pallas_call(
            body,
            out_shape=[jax.eval_shape(jnp.atleast_1d, leaf) for leaf in jax.tree.leaves(now)],
            compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
            interpret=jax.default_backend() == "cpu",
        )
        found = iter(call(*rows, *flat))
        return jax.tree.map(lambda like: next(found).reshape(like.shape), results)

    return run


def lie(like: Array) -> tuple[tuple[Array, ...], Array]:
    """Where every place of a filled-up array is, and whether it is there at all."""
    filled = tuple(map(side, like.shape))
    where = tuple(places(filled, axis) for axis in range(like.ndim))
    inside = jnp.ones(filled, bool)
    for place, size in zip(where, like.shape, strict=True):
        inside &= place < size
    return where, inside


def side(size: int) -> int:
    """The next power of two."""
    return max(LEAST, 1 << (size - 1).bit_length())


def places(shape: tuple[int, ...], axis: int) -> Array:
    """Everyone's number along an axis."""
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis)
