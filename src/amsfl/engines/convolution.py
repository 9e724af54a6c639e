"""Convolutions of 3x3 kernels as products of patches.

XLA's own are slow where every client has kernels of its own: a client step of the built-in cnn on 28x28
images took ten times as long. On a CPU their gradients are slow for a single client as well.
"""

from functools import partial

import jax
import jax.numpy as jnp

from amsfl.core.records import Tree
from amsfl.engines.dense import Layer, product, weight_gradient

FEW = 3  # channels of a map that are added up one by one: products of 9 to 27 columns take longer


def kernels(inputs: int, outputs: int, key: jax.Array) -> Layer:
    """Square kernels and biases, uniform within the inverse root of what a kernel sees."""
    taps = 9 * inputs
    scale = taps**-0.5
    one, two = jax.random.split(key)
    return Layer(
        jax.random.uniform(one, (taps, outputs), minval=-scale, maxval=scale),
        jax.random.uniform(two, (outputs,), minval=-scale, maxval=scale),
    )


def convolve(layer: Layer, maps: jax.Array, stride: int) -> jax.Array:
    """[rows, height, width, channels] -> the same with other channels; edges are padded by one."""
    outputs: jax.Array = _applied(maps, layer.weight, stride) + layer.bias
    return outputs


def patches(maps: jax.Array, stride: int) -> jax.Array:
    """What a kernel sees at every place: [rows, height, width, 3 x 3 x channels]."""
    padded = jnp.pad(maps, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = maps.shape[1:3]
    views = [padded[:, i : i + height : stride, j : j + width : stride] for i in range(3) for j in range(3)]
    return jnp.concatenate(views, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _applied(maps: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    return _forward(maps, weight, stride)[0]


def _forward(maps: jax.Array, weight: jax.Array, stride: int) -> tuple[jax.Array, Tree]:
    if maps.shape[-1] <= FEW and jax.default_backend() == "cpu":
        return _one_by_one(maps, weight, stride), (maps, None, weight)
    windows = patches(maps, stride)
    outputs: jax.Array = product(_flat(windows), weight, False)
    return outputs.reshape(*windows.shape[:3], -1), (maps, windows, weight)


def _backward(stride: int, saved: Tree, d: jax.Array) -> tuple[jax.Array, jax.Array]:
    maps, windows, weight = saved
    windows = patches(maps, stride) if windows is None else windows
    slopes = product(_flat(d), weight, True).reshape(windows.shape)
    collect = jax.linear_transpose(partial(patches, stride=stride), maps)
    back = _spread(slopes, maps.shape) if stride == 2 else collect(slopes)[0]
    return back, weight_gradient(_flat(windows), _flat(d), False)


_applied.defvjp(_forward, _backward)


def _flat(maps: jax.Array) -> jax.Array:
    return maps.reshape(-1, maps.shape[-1])


def _one_by_one(maps: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    """The same sums without patches, in one pass."""
    windows = patches(maps, stride)
    total = windows[..., 0, None] * weight[0]
    for place in range(1, len(weight)):
        total = total + windows[..., place, None] * weight[place]
    return total


def _spread(slopes: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Gradients of patches with stride 2, added up where they came from.

    Along one axis, an even place is seen by one patch as its second, and an odd one by a patch as its third
    and by the next as its first. As sums of halves this takes half the time of what jax makes of `patches`
    (maps with gaps, one for each of nine).
    """
    rows, height, width, channels = shape
    nine = slopes.reshape(*slopes.shape[:3], 3, 3, channels)
    halves = _halves(nine, 1, 3)  # [rows, height, 2, width, 3, channels]
    quarters = _halves(halves, 3, 4)  # [rows, height, 2, width, 2, channels]
    whole = quarters.reshape(rows, 2 * quarters.shape[1], 2 * quarters.shape[3], channels)
    return whole[:, :height, :width]


def _halves(slopes: jax.Array, axis: int, taps: int) -> jax.Array:
    """Even and odd places along an axis, from its patches' three taps, as a new axis."""
    first, second, third = (jax.lax.index_in_dim(slopes, tap, taps, keepdims=False) for tap in range(3))
    after = jax.lax.slice_in_dim(first, 1, None, axis=axis)
    after = jnp.pad(after, [(0, int(at == axis)) for at in range(first.ndim)])
    return jnp.stack([second, after + third], axis + 1)
