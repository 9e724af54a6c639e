"""Gradients that tell little of any one row: Poisson batches, every row's gradient clipped, noise on the sum.

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

Every row is in the batch with chance q, whoever else is (sampling.gaps), so a batch has no fixed size. Rows
are taken `room` at a time, and again while some are left: nothing is ever cut off, so the sampling is exactly
what the accountant is told. The expected batch b divides the sum: how many there were stays at home.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from amsfl import sampling
from amsfl.core import UserError
from amsfl.engines import losses
from amsfl.engines.dense import Layer, flips, perceptron, product, turned_product
from amsfl.engines.task import Task


def drawn(
    key: Any, step: Any, turn: Any, begin: Any, room: int, most: int, thresholds: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The places of a batch's next `room` rows from `begin` on, and where the next turn begins; nobody has
    more than `most`."""
    places = jnp.uint32(turn) * jnp.uint32(room) + jnp.arange(room, dtype=jnp.uint32)
    passed = sampling.gaps(key, jnp.uint32(step), places, thresholds)
    place = begin + jnp.cumsum(jnp.minimum(passed, most).astype(jnp.int32) + 1) - 1
    return place, place[-1] + 1


def gradient(task: Task, clip: float, batch: int) -> Callable[..., Any]:
    """f(params, rows, key, step, thresholds, noise) -> one private gradient; `rows` as engines.client has
    them."""
    most = int(task.shards.size.max())
    room = sampling.room(batch, most)
    summed = summed_rows(task)
    if (room + 1) * (most + 1) >= 2**31:
        raise UserError(
            f"A client has {most:,} rows, more than private batches of {batch} are drawn from: lower --batch."
        )

    def look(params: Any, rows: Any, key: Any, step: Any, thresholds: Any, noise: Any) -> Any:
        def more(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            turn, begin, grads = state
            place, further = drawn(key, step, turn, begin, room, most, thresholds)
            there = place < rows.size
            row = rows.order[rows.trial, rows.start + jnp.minimum(place, rows.size - 1)]
            row = jax.lax.optimization_barrier(row)
            fresh = summed(params, rows.x[row], rows.y[row], there, clip)
            return turn + 1, further, jax.tree.map(jnp.add, grads, fresh)

        nothing = jnp.int32(0), 0 * rows.size, jax.tree.map(jnp.zeros_like, params)
        *_, grads = jax.lax.while_loop(lambda state: state[1] < rows.size, more, nothing)
        expected = jnp.minimum(rows.size, batch).astype(task.dtype)
        places = jnp.arange(task.dim, dtype=jnp.uint32) if task.places is None else task.places()
        chance = jax.lax.optimization_barrier(sampling.normal(key, jnp.uint32(step), places))
        scaled = task.unravel(chance.astype(task.dtype) * (noise * clip / expected))
        return jax.tree.map(lambda grad, extra: grad / expected + extra, grads, scaled)

    return look


def summed_rows(task: Task) -> Callable[..., Any]:
    """f(params, x, y, there, clip) -> the sum of the rows' gradients that are there, each cut."""
    apply, loss = task.model.apply, task.loss
    return of_layers(loss) if apply is perceptron else of_any(apply, loss)


def factors(squares: jax.Array, there: jax.Array, clip: float) -> jax.Array:
    """What every row's gradient is multiplied by; a row whose gradient is no number counts nothing."""
    short = clip / jnp.maximum(jnp.sqrt(squares), clip)
    return jnp.where(there & jnp.isfinite(squares), short, 0)


def of_any(apply: losses.Apply, loss: losses.Rows) -> Callable[..., Any]:
    """Rows' gradients for their norms, then one gradient of the weighed losses: nobody keeps rows x model."""

    def one(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return loss(apply(params, x[None]), y[None])[0]

    def summed(params: Any, x: jax.Array, y: jax.Array, there: jax.Array, clip: float) -> Any:
        each = jax.vmap(jax.grad(one), (None, 0, 0))(params, x, y)
        squares = sum((leaf * leaf).reshape(len(y), -1).sum(1) for leaf in jax.tree.leaves(each))
        by = factors(jnp.asarray(squares), there, clip)

        def weighed(params: Any) -> jax.Array:
            lost = loss(apply(params, x), y)
            return (by * jnp.where(by > 0, lost, 0)).sum()

        return jax.grad(weighed)(params)

    return summed


def of_layers(loss: losses.Rows) -> Callable[..., Any]:
    """The same for dense layers, in little more than a plain step's time.

    A row's gradient of W is an outer product a d', so its norm is |a| |d|; and all d of a row scale together.
    """

    def summed(layers: Any, x: jax.Array, y: jax.Array, there: jax.Array, clip: float) -> Any:
        turns = flips(len(layers))

        def lost(probes: Any) -> tuple[jax.Array, Any]:
            out, inputs = x, []
            for place, (layer, flip, probe) in enumerate(zip(layers, turns, probes, strict=True)):
                inputs.append(jax.nn.relu(out) if place else out)
                out = product(inputs[-1], layer.weight, flip) + layer.bias + probe
            return loss(out, y).sum(), inputs

        # of this device's own rows, or jax would take the probes' gradients over all devices together
        own = (there & False)[:, None]
        probes = [jnp.zeros((len(y), layer.bias.size), x.dtype) + own for layer in layers]
        slopes, inputs = jax.grad(lost, has_aux=True)(probes)
        pairs = list(zip(inputs, slopes, strict=True))
        squares = sum(((a * a).sum(1) + 1) * (d * d).sum(1) for a, d in pairs)
        by = factors(jnp.asarray(squares), there, clip)[:, None]
        scaled = [(jnp.where(by > 0, a, 0), jnp.where(by > 0, d, 0) * by) for a, d in pairs]
        return tuple(
            Layer(turned_product(a, d, flip), d.sum(0)) for (a, d), flip in zip(scaled, turns, strict=True)
        )

    return summed
