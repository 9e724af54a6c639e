"""A flat vector in a GPU's memory as the arrays that a kernel holds: filled up with zeros, and back again."""

from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp

from amsfl.core.records import Array, Tree
from amsfl.engines.task import Task

LEAST = 16  # of a side


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
