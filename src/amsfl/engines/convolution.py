"""Convolutions as products of patches."""

import jax
import jax.numpy as jnp

from amsfl.engines.dense import Layer, product


def kernels(inputs: int, outputs: int, key: jax.Array) -> Layer:
    """3x3 kernels and biases, uniform within the inverse root of what a kernel sees."""
    scale = (9 * inputs) ** -0.5
    one, two = jax.random.split(key)
    return Layer(
        jax.random.uniform(one, (9 * inputs, outputs), minval=-scale, maxval=scale),
        jax.random.uniform(two, (outputs,), minval=-scale, maxval=scale),
    )


def convolved(layer: Layer, maps: jax.Array, stride: int) -> jax.Array:
    """[rows, height, width, channels] -> the same with other channels, edges padded by one.

    As one product of all patches with the kernels. XLA's own convolutions are slow where every client has
    kernels of its own: a client step of the built-in cnn on 28x28 images took ten times as long.
    """
    _, height, width, _ = maps.shape
    padded = jnp.pad(maps, ((0, 0), (1, 1), (1, 1), (0, 0)))
    views = [padded[:, i : i + height : stride, j : j + width : stride] for i in range(3) for j in range(3)]
    patches = jnp.concatenate(views, axis=-1)
    flat = patches.reshape(-1, patches.shape[-1])
    found: jax.Array = product(flat, layer.weight, False) + layer.bias
    return found.reshape(*patches.shape[:3], -1)
