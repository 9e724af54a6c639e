"""Private steps of simulated clients: Poisson batches, every row's gradient cut, noise on the sum.

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise) / b,   b = q rows

Every row is in the batch with chance q, whoever else is (sampling.gaps), so a batch has no fixed size. Rows
are taken `room` at a time, and again while some are left: none is left out, so the sampling is exactly what
the accountant assumes. The expected batch b divides the sum: how many rows there were is not told.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from amsfl import sampling
from amsfl.core import Key, RowPrivacy, UserError
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import losses
from amsfl.engines.client_program import ClientJob, Rows
from amsfl.engines.devices import Program, call_in_place
from amsfl.engines.layers import product, weight_gradient
from amsfl.engines.models import Model, is_dense
from amsfl.engines.task import Task
from amsfl.portable.network import Layer, flips
from amsfl.privacy import private_step


def next_rows(
    key: Key, step: Number, thresholds: Array, turn: Number, begin: Number, room: int, most: int
) -> tuple[jax.Array, jax.Array]:
    """The places of a batch's next `room` rows from `begin` on, and where the next turn begins; nobody has
    more than `most`."""
    places = jnp.uint32(turn) * jnp.uint32(room) + jnp.arange(room, dtype=jnp.uint32)
    passed = sampling.gaps(key, jnp.uint32(step), places, thresholds)
    place = begin + jnp.cumsum(jnp.minimum(passed, most).astype(jnp.int32) + 1) - 1
    return place, place[-1] + 1


def gradient(task: Task, private: RowPrivacy, batch: int) -> Program:
    """f(params, job, rows, step) -> one private gradient of a ClientJob."""
    most = int(task.shards.size.max())
    room = sampling.room(batch, most)
    summed = row_sum(task, private)
    if (room + 1) * (most + 1) >= 2**31:
        raise UserError(
            f"A client has {most:,} rows, more than private batches of {batch} are drawn from: lower --batch."
        )

    def look(params: Tree, job: ClientJob, rows: Rows, step: Number) -> Tree:
        x, y, order = rows

        def more(state: tuple[Tree, Tree, Tree]) -> tuple[Tree, Tree, Tree]:
            turn, begin, grads = state
            place, further = next_rows(job.key, step, job.chance, turn, begin, room, most)
            present = place < job.size
            row = order[job.trial, job.start + jnp.minimum(place, job.size - 1)]
            row = jax.lax.optimization_barrier(row)
            fresh = summed(params, x[row], y[row], present)
            return turn + 1, further, jax.tree.map(jnp.add, grads, fresh)

        nothing = jnp.int32(0), 0 * job.size, jax.tree.map(jnp.zeros_like, params)
        *_, grads = jax.lax.while_loop(lambda state: state[1] < job.size, more, nothing)
        expected = jnp.minimum(job.size, batch).astype(task.dtype)
        places = jnp.arange(task.dim, dtype=jnp.uint32)
        chance = sampling.normal(job.key, jnp.uint32(step), places)
        drawn = jnp.asarray(jax.lax.optimization_barrier(chance), task.dtype)
        scaled = task.unravel(drawn * (job.noise * private.clip / expected))
        return jax.tree.map(lambda grad, extra: grad / expected + extra, grads, scaled)

    return look


def reference_gradient(
    task: Task, private: RowPrivacy, batch: int, each_gradient: Program
) -> Callable[[Array, int, int, tuple[Array, Array], int], Array]:
    """f(x, trial, client, key, step) -> the same in numpy, row by row: the reference engine's.

    `each_gradient(x, rows, labels)` gives every row's gradient at x.
    """
    dtype, shards, noise = task.dtype, task.shards, task.noise
    assert noise is not None

    def look(x: Array, trial: int, who: int, key: tuple[Array, Array], step: int) -> Array:
        size, begin = int(shards.size[trial, who]), int(shards.start[trial, who])
        with np.errstate(over="ignore"):
            at, thresholds = sampling.words(step), sampling.digits(batch, size)
            passed = sampling.gaps(key, at, np.arange(size, dtype=np.uint32), thresholds)
            inside = np.cumsum(passed.astype(np.int64) + 1) - 1
            inside = inside[inside < size]
        total, room = np.zeros(task.dim, dtype), min(size, batch)
        for first in range(0, len(inside), room):
            some = np.resize(inside[first : first + room], room)  # one shape: one compilation
            rows = shards.order[trial, begin + some]
            each = np.asarray(each_gradient(x, task.x[rows], task.y[rows]))[: len(inside) - first]
            factors = private_step.row_factors(private, private_step.norms(each), np.ones(len(each), bool))
            total += private_step.weighted_sum(factors, each)

        with np.errstate(over="ignore"):
            drawn = sampling.normal(key, at, np.arange(task.dim, dtype=np.uint32)).astype(dtype)
        length = private_step.norms(total[None])[0]
        total = total if private_step.is_safe(length, len(inside), private.clip) else np.zeros_like(total)
        scale = noise[trial, who].astype(dtype) * dtype(private.clip)
        return np.asarray((total + drawn * scale) / dtype(min(size, batch)))

    return look


def row_sum(task: Task, private: RowPrivacy) -> Program:
    """f(params, x, y, present) -> the sum of the present rows' gradients, each cut; zero if not safe."""
    model, loss = task.model, task.loss
    plain = is_dense(model.layers) and model.unit == 1
    summed = sum_of_layers(loss, private) if plain else sum_of_any(model.apply, loss, private)

    def checked(params: Tree, x: jax.Array, y: jax.Array, present: jax.Array) -> Tree:
        total = summed(params, x, y, present)
        lengths = jnp.stack([private_step.norms(leaf.reshape(1, -1))[0] for leaf in jax.tree.leaves(total)])
        safe = private_step.is_safe(private_step.norms(lengths[None])[0], present.sum(), private.clip)
        return jax.tree.map(lambda leaf: jnp.where(safe, leaf, 0), total)

    return checked


def sum_of_any(apply: losses.Apply, loss: losses.RowLoss, private: RowPrivacy) -> Program:
    """Rows' gradients one by one: one gradient of all losses would let a row's NaN reach the others."""

    def one(params: Tree, x: jax.Array, y: jax.Array) -> Array:
        return loss(apply(params, x[None]), y[None])[0]

    def summed(params: Tree, x: jax.Array, y: jax.Array, present: jax.Array) -> Tree:
        each = jax.vmap(jax.grad(one), (None, 0, 0))(params, x, y)
        parts = [private_step.norms(leaf.reshape(len(y), -1)) for leaf in jax.tree.leaves(each)]
        factors = private_step.row_factors(private, private_step.norms(jnp.stack(parts, 1)), present)
        return jax.tree.map(partial(private_step.weighted_sum, factors), each)

    return summed


def sum_of_layers(loss: losses.RowLoss, private: RowPrivacy) -> Program:
    """The same for dense layers, in little more than a plain step's time.

    A row's gradient of W is an outer product a d', so its norm is |a| |d|; and all d of a row scale together.
    """

    def summed(layers: Tree, x: jax.Array, y: jax.Array, present: jax.Array) -> Tree:
        turns = flips(len(layers))

        def lost(probes: Tree) -> tuple[jax.Array, Tree]:
            out, inputs = x, []
            for place, (layer, flip, probe) in enumerate(zip(layers, turns, probes, strict=True)):
                inputs.append(jax.nn.relu(out) if place else out)
                out = product(inputs[-1], layer.weight, flip) + layer.bias + probe
            return loss(out, y).sum(), inputs

        # of this device's own rows, or jax would take the probes' gradients over all devices together
        own = (present & False)[:, None]
        probes = [jnp.zeros((len(y), layer.bias.size), x.dtype) + own for layer in layers]
        slopes, inputs = jax.grad(lost, has_aux=True)(probes)
        pairs = list(zip(inputs, slopes, strict=True))
        parts = [jnp.hypot(private_step.norms(a), 1) * private_step.norms(d) for a, d in pairs]
        factors = private_step.row_factors(private, private_step.norms(jnp.stack(parts, 1)), present)[:, None]
        counted = factors > 0
        scaled = [(jnp.where(counted, a, 0), jnp.where(counted, d, 0) * factors) for a, d in pairs]
        return tuple(
            Layer(weight_gradient(a, d, flip), d.sum(0)) for (a, d), flip in zip(scaled, turns, strict=True)
        )

    return summed


def check_rows_apart(model: Model, x: Array) -> None:
    """A row's gradient must be its own: a model that looks across a batch has none."""
    call_in_place()
    rows = jnp.asarray(x[:: max(len(x) // 4, 1)][:4])

    def moved(leaf: Tree) -> Tree:  # models may begin at zero, where nothing matters
        return jnp.asarray(leaf, rows.dtype) + 0.1 * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape)

    params = jax.tree.map(moved, model.init(jax.random.key(0)))
    together = np.asarray(model.apply(params, rows))
    alone = np.concatenate([np.asarray(model.apply(params, row[None])) for row in rows])
    if not np.allclose(together, alone, rtol=1e-3, atol=1e-3):
        raise UserError(
            f"The model {model.name!r} treats a row differently beside others (batch normalisation does), so "
            "no row has a gradient of its own to clip; under privacy use a model without that."
        )
