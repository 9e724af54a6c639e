"""Dense layers whose gradients are products that the CPU is good at.

The gradient of x W is x' d: a product with its left side transposed, for which XLA has no fast kernel on the
CPU (twice the time of x W itself, a third of a client step). Transposed beforehand, at the cost of one small
copy, all products of a step take the fast one: a client step of job A of benchmarks/ takes 0.81 of the time,
one of job B 0.75.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax

from amsfl.core.records import Array, Tree


class Layer(NamedTuple):
    weight: Array
    bias: Array


def flips(count: int) -> list[bool]:
    """Which of a network's dense layers store W as [outputs, inputs]: all but the first of several.

    So d (the smaller side) is the one to turn, and the input's gradient d W' needs no turning. Nobody asks
    for the gradient of a first layer's input.
    """
    return [count == 1 or place > 0 for place in range(count)]


def swap_layout(layers: Sequence[tuple[Array, Array]]) -> tuple[Layer, ...]:
    """Layers with W [inputs, outputs] as a network stores them, or such a network's layers back again."""
    each = zip(layers, flips(len(layers)), strict=True)
    return tuple(Layer(weight.T if flip else weight, bias) for (weight, bias), flip in each)


def perceptron(layers: tuple[Layer, ...], x: jax.Array) -> jax.Array:
    """The layers one after another, with ReLU between."""
    for place, (layer, flip) in enumerate(zip(layers, flips(len(layers)), strict=True)):
        x = product(jax.nn.relu(x) if place else x, layer.weight, flip) + layer.bias
    return x


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: jax.Array, weight: jax.Array, flipped: bool) -> jax.Array:
    """x W, with W [inputs, outputs] or flipped; its gradients are d W' and x' d."""
    return times(x, weight, turn_b=flipped)


def _forward(x: jax.Array, weight: jax.Array, flipped: bool) -> tuple[jax.Array, Tree]:
    return times(x, weight, turn_b=flipped), (x, weight)


def _backward(flipped: bool, saved: Tree, d: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weight = saved
    return times(d, weight, turn_b=not flipped), weight_gradient(x, d, flipped)


def weight_gradient(x: jax.Array, d: jax.Array, flipped: bool) -> jax.Array:
    """x' d, the gradient of W, or flipped as W is."""
    sides = (d, x) if flipped else (x, d)
    return times(*sides, turn_a=True)


product.defvjp(_forward, _backward)


def times(a: jax.Array, b: jax.Array, turn_a: bool = False, turn_b: bool = False) -> jax.Array:
    """a b of two matrices, with a or b or both transposed."""
    if turn_a and not turn_b and a.size > b.size + a.shape[1] * b.shape[1] and jax.default_backend() == "cpu":
        return _laid_out(_laid_out(b.T) @ a).T  # the other side and the product are less to transpose
    return (_laid_out(a.T) if turn_a else a) @ (b.T if turn_b else b)


def _laid_out(side: jax.Array) -> jax.Array:
    """As rows in memory on the CPU; elsewhere products take a transposed side as it is."""
    return jax.lax.optimization_barrier(side) if jax.default_backend() == "cpu" else side
