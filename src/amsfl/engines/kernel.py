"""A client's steps as one kernel of a GPU: its model stays in the registers of one processor from the first
step to the last.

XLA makes some thirty kernels of a step. Of a small network each is over before the next one has begun, and
of thousands of clients at once each reads and writes all their models: on an H200 one kernel for all steps
runs 2,000 trials of the default network 3.5 times as fast (benchmarks/h200.md). Every client is a program of
its own that fetches its minibatches by itself, so clients of unequal steps do not wait for each other. What a
step is stays with `protocol` and the method: those lines are traced here as they are everywhere else.

Sides of matrices are filled up with zeros to powers of two, 16 at least, as tensor cores want them. What is
filled in stays zero: neither a row of zeros nor a unit that is never on has a gradient.
"""

import os
from functools import partial
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from amsfl import protocol, sampling
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import losses
from amsfl.engines.devices import Program, parts
from amsfl.engines.task import Task
from amsfl.methods import Method

SWITCH = "AMSFL_KERNELS"  # 0 takes XLA's own; 1 takes these on GPUs and for untested methods
TRIED = ("9.0",)  # compute capabilities
NUMBERS = 100_000  # of a model, its gradient, and a minibatch at every layer: with more, XLA's are as fast
FEW = 40_000  # up to which four warps are faster than eight
ROUNDED = (None, "default", "tensorfloat32", "BF16_BF16_F32")  # what tensor cores do; others are slow here
LEAST = 16  # of a side
NOWHERE = -1e30  # the logit of a class that was filled in


class KernelNumbers(NamedTuple):
    """A client's integers: its rows, its random key, which steps to take, and whether it moves."""

    trial: Number
    start: Array
    size: Number
    key: Array
    other: Array
    first: Number
    last: Number
    moving: Number


class KernelVectors(NamedTuple):
    """Vectors of a model's size that a step reads; empty where a method has none."""

    anchor: Array
    server: Array
    client: Array


def serves(mesh: Mesh, task: Task, method: Method, batch: int) -> bool:
    """Whether kernels are for these devices and for this task."""
    device, asked = mesh.local_devices[0], os.environ.get(SWITCH, "")
    if device.platform not in ("gpu", "cuda") or asked == "0" or parts(mesh) > 1:
        return False
    rules = (method.arithmetic.correct, method.arithmetic.stride, method.arithmetic.pace)
    ours = all(rule is None or rule.__module__.startswith("amsfl.") for rule in rules)
    tested = ours and str(getattr(device, "compute_capability", "")) in TRIED
    products = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]  # made at run time
    return (tested or asked == "1") and products in ROUNDED and fits(task, method, batch)


def fits(task: Task, method: Method, batch: int) -> bool:
    """Whether a task's steps can be a kernel: of a small perceptron that tells classes apart."""
    kinds = {part.kind for part in task.model.layers}
    plain = method.arithmetic.objective is None and not method.private_rows and task.pieces == 1
    if method.arithmetic.opening is not None:  # trial steps are not among what a kernel does
        return False
    supported = (
        bool(kinds) and kinds <= {"dense", "relu"} and task.loss is losses.cross_entropy and task.classes > 1
    )
    return plain and supported and task.dtype == np.float32 and numbers(task, batch) <= NUMBERS


def numbers(task: Task, batch: int) -> int:
    """Of a model and its gradient, filled up, and of what a minibatch is at every layer."""
    named = [part for part in task.model.layers if part.name]
    sides = [side(named[0].inputs), *(side(part.outputs) for part in named)]
    return 2 * Tiles.of(task).numbers + side(batch) * sum(sides)


def stepper(task: Task, method: Method, batch: int, looks: bool, layout: protocol.VectorLayout) -> Program:
    """walk(job, vectors, rows, now) -> now after the steps from job.first to before job.last.

    `now` is (x, past, lr), its vectors flat; on the way they lie by `layout`. With `looks` the last
    minibatch's loss and gradient come back beside it.
    """
    from jax.experimental import pallas as pl  # only GPUs need it, and it takes a while
    from jax.experimental.pallas import triton

    tiles = Tiles.of(task)
    numbers_ = list(method.arithmetic.numbers)  # a kernel is handed all that it reads
    warps = 4 if numbers(task, batch) <= FEW else 8

    def gradient(params: Tree, x: Array, y: Array) -> tuple[Tree, Tree]:
        def objective(params: Tree) -> Tree:
            logits = task.model.apply(params, x)
            rows = task.loss(jnp.where(places(logits.shape, 1) < task.classes, logits, NOWHERE), y)
            return jnp.where(places(rows.shape, 0) < batch, rows, 0).sum() * (1 / batch)

        return jax.value_and_grad(objective)(params)

    def minibatch(job: KernelNumbers, rows: Array, number: Number) -> tuple[Tree, Tree]:
        x, y, order = rows
        key = job.key.astype(jnp.uint32), job.other.astype(jnp.uint32)
        each = jnp.arange(side(batch), dtype=jnp.uint32)
        picked = sampling.draw(key, number.astype(jnp.uint32), each, job.size, task.shuffled)
        row = order[job.trial, job.start + picked]
        shape = side(batch), side(x.shape[1])
        column = places(shape, 1)
        where = jax.lax.broadcast_in_dim(row, shape, (0,)), column
        return triton.load(x.at[where], mask=column < x.shape[1], other=0), y[row]

    def body(*refs: Tree, in_tree: Tree, out_tree: Tree) -> None:
        inputs = jax.tree.unflatten(in_tree, refs[: in_tree.num_leaves])
        whole, vectors, rows, (x, past, lr), own = inputs
        rules = method.with_numbers([value[0] for value in own])
        job = KernelNumbers(*(whole[place] for place in range(len(KernelNumbers._fields))))

        def further(number: Number, now: Tree) -> Tree:
            x, past, lr, *_ = now
            loss, slope = gradient(x, *minibatch(job, rows, number))
            # an empty vector is not read
            anchor, server, client = (x if part is None else tiles.read(part) for part in vectors)
            carry = protocol.LocalState(anchor, server, client, lr, x=x, past=past)
            then = protocol.local_step(rules, carry, loss, slope, layout)
            moved = jax.tree.map(partial(jnp.where, job.moving > 0), (then.x, then.past), (x, past))
            return (*moved, then.lr, *((loss, slope) if looks else ()))

        begin = jax.tree.map(tiles.read, (x, past, lr))
        begin = (*begin, begin[2], begin[0]) if looks else begin
        after = jax.lax.fori_loop(job.first, job.last, further, begin)
        tiles.write(jax.tree.unflatten(out_tree, refs[in_tree.num_leaves :]), after)

    def walk(job: KernelNumbers, vectors: KernelVectors, rows: Array, now: Tree) -> Tree:
        whole = jnp.stack([jnp.asarray(part).astype(jnp.int32) for part in job])
        asked = KernelVectors(*(part if part.size else None for part in vectors))
        ways, own = jax.tree.map(jnp.atleast_1d, (now, numbers_))
        flat, in_tree = jax.tree.flatten((whole, asked, rows, ways, own))
        after = (*now, now[2], now[0]) if looks else now
        shapes, out_tree = jax.tree.flatten(jax.eval_shape(partial(jax.tree.map, jnp.atleast_1d), after))
        call = pl.pallas_call(
            partial(body, in_tree=in_tree, out_tree=out_tree),
            out_shape=shapes,
            compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
            interpret=jax.default_backend() == "cpu",
        )
        return jax.tree.map(
            lambda part, like: part.reshape(like.shape), jax.tree.unflatten(out_tree, call(*flat)), after
        )

    return walk


class Tiles(NamedTuple):
    """The arrays of a network in the order of its flat vector."""

    shapes: tuple[tuple[int, ...], ...]
    tree: Tree

    @classmethod
    def of(cls, task: Task) -> "Tiles":
        leaves, tree = jax.tree.flatten(task.shapes)
        return cls(tuple(leaf.shape for leaf in leaves), tree)

    @property
    def numbers(self) -> int:
        """Of all arrays, filled up."""
        return sum(prod(map(side, shape)) for shape in self.shapes)

    def read(self, ref: Array) -> Tree:
        """A vector as the network's arrays; or the number, where there is just one."""
        from jax.experimental.pallas import triton

        if ref.shape == (1,):
            return ref[0]
        return self.tree.unflatten(
            [triton.load(ref.at[where], mask=inside, other=0) for where, inside in self._lie()]
        )

    def write(self, refs: Tree, values: Tree) -> None:
        """Arrays and numbers to where they belong."""
        from jax.experimental.pallas import triton

        def one(ref: Array, value: Array) -> None:
            if ref.shape == (1,):
                ref[0] = value
                return
            for (where, inside), leaf in zip(self._lie(), jax.tree.leaves(value), strict=True):
                triton.store(ref.at[where], leaf, mask=inside)

        jax.tree.map(one, refs, values)

    def _lie(self) -> list[tuple[Array, Array]]:
        """Where each place of every filled-up array is in the vector, and whether it is there at all."""
        lying, begin = [], 0
        for shape in self.shapes:
            filled = tuple(map(side, shape))
            where, inside = jnp.zeros(filled, jnp.int32), jnp.ones(filled, bool)
            for axis, size in enumerate(shape):
                place = places(filled, axis)
                where, inside = where * size + place, inside & (place < size)
            lying.append((where + begin, inside))
            begin += prod(shape)
        return lying


def side(size: int) -> int:
    """The next power of two."""
    return max(LEAST, 1 << (size - 1).bit_length())


def places(shape: tuple[int, ...], axis: int) -> Array:
    """Everyone's number along an axis."""
    return jax.lax.broadcasted_iota(jnp.int32, shape, axis)
