"""Where a model's numbers lie: on every device in one piece, or on each of several a part of every layer.

Outside of the engine a vector has its layers one after another, each flat: the plain order. Shared by k
devices it is [k, n] in one: first all that the first device holds of every layer, then all that the second
one does. So a layer's part is cut out of a device's own numbers, and nothing has to be sent for it; what is
sent is what a layer makes of a minibatch, which the compiler puts where products meet (docs/scale.md).
"""

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl import protocol, sampling
from amsfl.core import namespace
from amsfl.core.records import Array, Tree
from amsfl.engines import devices
from amsfl.engines.contract import State
from amsfl.engines.task import Task
from amsfl.methods import Method


class ModelLayout(NamedTuple):
    """How vectors lie; those of a method's own state, too, which are so many models and then some numbers."""

    parts: int  # devices that share a model
    structure: Array
    shapes: tuple[tuple[int, ...], ...]  # of the layers' arrays
    size: int  # numbers of a model as it lies here: a few zeros more than it has where parts are uneven
    lengths: State  # of a State's vectors as methods see them

    def leaves(self, vector: Array) -> list[Array]:
        """The layers' arrays of a vector [..., size] that lies as it does here."""
        lead, space = vector.shape[:-1], namespace(vector)
        rows, at = vector.reshape((*lead, self.parts, -1)), 0
        arrays: dict[int, Array] = {}
        for place, shape, axis in self._parted():
            mine = _part(shape, axis, self.parts)
            part = rows[..., at : at + prod(mine)].reshape((*lead, self.parts, *mine))
            arrays[place] = space.moveaxis(part, len(lead), len(lead) + axis).reshape((*lead, *shape))
            at += prod(mine)
        rest, at = rows[..., at:].reshape((*lead, -1)), 0
        for place, shape in self._left():
            arrays[place] = rest[..., at : at + prod(shape)].reshape((*lead, *shape))
            at += prod(shape)
        return [arrays[place] for place in range(len(self.shapes))]

    def vector(self, leaves: list[Array]) -> Array:
        """`leaves` backwards."""
        lead = leaves[0].shape[: leaves[0].ndim - len(self.shapes[0])]
        space, rows = namespace(leaves[0]), []
        for place, shape, axis in self._parted():
            mine = _part(shape, axis, self.parts)
            part = leaves[place].reshape((*lead, *shape[:axis], self.parts, *mine[axis:]))
            rows.append(space.moveaxis(part, len(lead) + axis, len(lead)).reshape((*lead, self.parts, -1)))
        if small := [leaves[place].reshape((*lead, -1)) for place, _ in self._left()]:
            rest = space.concat(small, axis=-1)
            fill = space.zeros((*lead, -rest.shape[-1] % self.parts), dtype=rest.dtype)
            rows.append(space.concat([rest, fill], axis=-1).reshape((*lead, self.parts, -1)))
        return space.concat(rows, axis=-1).reshape((*lead, -1))

    def arranged(self, plain: Array) -> Array:
        """[..., models and numbers] in the plain order, as it lies here."""
        if self.parts == 1:
            return plain
        dim, space = self.dim, namespace(plain)
        models = [self.vector(self._cut(part)) for part in _chunks(plain, dim)]
        return self.folded(space.concat([*models, plain[..., len(models) * dim :]], axis=-1))

    def plain(self, vector: Array, length: int) -> Array:
        """`arranged` backwards, for what methods see as `length` numbers."""
        if self.parts == 1:
            return vector
        space, opened = namespace(vector), self.opened(vector, length)
        lead, models = vector.shape[:-1], []
        for part in _chunks(opened, self.size):
            models += [leaf.reshape((*lead, -1)) for leaf in self.leaves(part)]
        return space.concat([*models, opened[..., length - length % self.size :]], axis=-1)

    def folded(self, vector: Array) -> Array:
        """Several models and some numbers, one after another, as parts of all of them on each device."""
        if self.parts == 1 or vector.shape[-1] in (0, self.size):
            return vector
        lead, space = vector.shape[:-1], namespace(vector)
        models = _chunks(vector, self.size)
        rest = vector[..., len(models) * self.size :]
        fill = space.zeros((*lead, -rest.shape[-1] % self.parts), dtype=rest.dtype)
        rows = [
            part.reshape((*lead, self.parts, -1)) for part in (*models, space.concat([rest, fill], axis=-1))
        ]
        return space.concat(rows, axis=-1).reshape((*lead, -1))

    def opened(self, vector: Array, length: int) -> Array:
        """`folded` backwards: `length` numbers, as a method made them."""
        if self.parts == 1 or length in (0, self.size):
            return vector
        lead, space = vector.shape[:-1], namespace(vector)
        rows, each = vector.reshape((*lead, self.parts, -1)), self.size // self.parts
        many = length // self.size
        models = [rows[..., at * each : (at + 1) * each].reshape((*lead, -1)) for at in range(many)]
        rest = rows[..., many * each :].reshape((*lead, -1))[..., : length % self.size]
        return space.concat([*models, rest], axis=-1)

    def clean(self, vector: Array) -> Array:
        """With zeros where no layer has a number: noise may have been put there."""
        return vector if self.size == self.dim or not vector.size else self.vector(self.leaves(vector))

    @property
    def dim(self) -> int:
        """Numbers of a model in the plain order."""
        return sum(map(prod, self.shapes))

    def spec(self, lead: int) -> P:
        """How an array of `lead` axes and then numbers of models lies over the devices."""
        return P(*[None] * lead, devices.MODEL) if self.parts > 1 else P()

    def specs(self, lead: int = 0) -> State:
        """Of a State, behind so many axes more."""
        return State(*(self.spec(lead + axes) for axes in (1, 1, 2, 2, 1, 2)))

    def places(self) -> Array:
        """Where every number of a vector has its place in the plain order."""
        return self.arranged(jnp.arange(self.dim, dtype=jnp.uint32))

    def _cut(self, plain: Array) -> list[Array]:
        arrays, at = [], 0
        for shape in self.shapes:
            arrays.append(plain[..., at : at + prod(shape)].reshape((*plain.shape[:-1], *shape)))
            at += prod(shape)
        return arrays

    def _parted(self) -> Iterator[tuple[int, tuple[int, ...], int]]:
        for place, shape in enumerate(self.shapes):
            axis = parted_axis(shape, self.parts)
            if axis is not None:
                yield place, shape, axis

    def _left(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        for place, shape in enumerate(self.shapes):
            if parted_axis(shape, self.parts) is None:
                yield place, shape


def make(task: Task, method: Method, parts: int = 1) -> ModelLayout:
    leaves, structure = jax.tree.flatten(task.shapes)
    shapes = tuple(leaf.shape for leaf in leaves)
    size = sum(prod(shape) for shape in shapes if parted_axis(shape, parts) is not None)
    size += -(-(task.dim - size) // parts) * parts
    x = jax.ShapeDtypeStruct((size,), task.dtype)
    server = jax.eval_shape(method.arithmetic.init, x)[0].size
    client, memory = (
        part.size for part in jax.eval_shape(lambda x: protocol.initial_client_state(method, x), x)
    )
    lengths = State(size, server, client, memory, size, protocol.remembers(method))
    return ModelLayout(parts, structure, shapes, size, lengths)


def laid_out(task: Task, layout: ModelLayout) -> Task:
    """The task whose vectors lie as the layout says."""
    if layout.parts == 1:
        return task

    def held(leaves: list[Array]) -> list[Array]:
        """Told where they lie at both ends of the steps, or the compiler would find another way between."""
        return [devices.constrain_sharding(leaf, _lies(leaf.shape, layout.parts)) for leaf in leaves]

    def unravel(vector: jax.Array) -> Tree:
        return jax.tree.unflatten(layout.structure, held(layout.leaves(vector)))

    def ravel(tree: Tree) -> jax.Array:
        vector: jax.Array = layout.vector(held(jax.tree.leaves(tree)))
        return vector

    def loss(outputs: jax.Array, y: jax.Array) -> jax.Array:
        # a few classes are not worth parting: every sum over them would have to be sent
        return task.loss(devices.constrain_sharding(outputs, P()), y)

    return task._replace(dim=layout.size, unravel=unravel, ravel=ravel, places=layout.places, loss=loss)


def first_models(task: Task, layout: ModelLayout, mesh: Mesh) -> jax.Array:
    """Task.start as it lies here: a device draws its own part, since none may have room for the whole."""
    with jax.enable_x64(False):

        def one(seed: jax.Array) -> Tree:
            return layout.vector(jax.tree.leaves(task.model.init(jax.random.key(seed))))

        drawn = jax.jit(
            lambda seeds: jax.lax.map(one, seeds), out_shardings=NamedSharding(mesh, layout.spec(1))
        )
        models: jax.Array = drawn(sampling.words(task.seeds))
    return models.astype(task.dtype)


def parted_axis(shape: tuple[int, ...], parts: int) -> int | None:
    """The longest axis that parts divide, of equal ones the last; None: too odd, and kept with the rest."""
    fitting = [(length, axis) for axis, length in enumerate(shape) if length and length % parts == 0]
    return max(fitting)[1] if fitting else None


def _lies(shape: tuple[int, ...], parts: int) -> P:
    axis = parted_axis(shape, parts)
    return P(*(devices.MODEL if place == axis else None for place in range(len(shape))))


def _part(shape: tuple[int, ...], axis: int, parts: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] // parts, *shape[axis + 1 :])


def _chunks(vector: Array, size: int) -> list[Array]:
    return [vector[..., at : at + size] for at in range(0, vector.shape[-1] - size + 1, size)]
