"""Uploads added up inside a compiled program, always in one order: sums of floats depend on it."""

import jax
import jax.numpy as jnp

from amsfl.core import Upload
from amsfl.core.records import Number


def add_rows(total: Upload, sent: Upload, share: jax.Array, slot: jax.Array) -> Upload:
    """Row by row in place: with few jobs at a time, touching all trials would cost more than the jobs.

    A CPU's is a loop: written out for every lane it was a tenth of the compiling.
    """

    def one(lane: Number, total: Upload) -> Upload:
        def added(old: jax.Array, new: jax.Array) -> jax.Array:
            row = jax.lax.dynamic_index_in_dim(old, slot[lane], keepdims=False)
            fresh: jax.Array = jax.lax.dynamic_update_index_in_dim(
                old, row + share[lane] * new[lane], slot[lane], 0
            )
            return fresh

        return Upload(*map(added, total, sent))

    written_out = jax.default_backend() != "cpu"
    sums: Upload = jax.lax.fori_loop(0, len(share), one, total, unroll=written_out)
    return sums


def add_wave(total: Upload, sent: Upload, share: jax.Array, lanes: jax.Array) -> Upload:
    """Every sum takes its own lanes, in order; a scatter with equal indices has no order on a GPU."""
    used, lane = lanes >= 0, jnp.maximum(lanes, 0)

    def summed(old: jax.Array, new: jax.Array) -> jax.Array:
        wide = (..., *[None] * (new.ndim - 1))
        return old + jnp.where(used[wide], share[lane][wide] * new[lane], 0).sum(1)

    return Upload(*map(summed, total, sent))


def in_order(part: jax.Array, slots: int) -> jax.Array:
    """A trial's slots added up one after another: a reduction would leave the order to the compiler."""
    each = part.reshape(len(part) // slots, slots, *part.shape[1:])
    total = each[:, 0]
    for slot in range(1, slots):
        total = total + each[:, slot]
    return total
