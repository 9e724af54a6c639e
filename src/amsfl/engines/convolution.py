"""Convolutions as products of patches, or of whole lines where kernels are wide.

XLA's own are slow where every client has kernels of its own: a client step of the built-in cnn on 28x28
images took ten times as long. On a CPU their gradients are slow for a single client as well.

Patches of 5x5 kernels are 25 times the map, and their products have few columns. A line of the map times a
matrix that has the kernel's line at every place is more arithmetic in products of a better shape: a client
step of `lenet` on 28x28 images takes an eighth of the time on a CPU and a half on a GPU. With 3x3 kernels it
gains nothing.
"""

from functools import partial
from math import isqrt

import jax
import jax.numpy as jnp
import numpy as np

from amsfl.core.records import Tree
from amsfl.engines.dense import Layer, product, weight_gradient

WIDE, LINE = 5, 6  # kernels from this side on, and maps of at most so many sides, are multiplied by lines
FEW = 3  # channels of a map that are added up one by one: products of 9 to 27 columns take longer


def kernels(inputs: int, outputs: int, key: jax.Array, side: int = 3) -> Layer:
    """Square kernels and biases, uniform within the inverse root of what a kernel sees."""
    taps = side**2 * inputs
    scale = taps**-0.5
    one, two = jax.random.split(key)
    return Layer(
        jax.random.uniform(one, (taps, outputs), minval=-scale, maxval=scale),
        jax.random.uniform(two, (outputs,), minval=-scale, maxval=scale),
    )


def convolve(layer: Layer, maps: jax.Array, stride: int) -> jax.Array:
    """[rows, height, width, channels] -> the same with other channels; 3x3 kernels pad edges by one."""
    side = _side(maps, layer.weight)
    by_lines = side >= WIDE and maps.shape[2] <= LINE * side
    outputs: jax.Array = (_by_lines if by_lines else _applied)(maps, layer.weight, stride) + layer.bias
    return outputs


def _by_lines(maps: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    """The kernel's line i, laid at every place of a line of the map, times the map's lines y + i."""
    rows, height, width, channels = maps.shape
    side = _side(maps, weight)
    tall, wide = ((length - side) // stride + 1 for length in (height, width))
    tap, before, after = np.ogrid[:side, :width, :wide]
    places = (before == stride * after + tap).astype(weight.dtype)
    kernel = weight.reshape(side, side, channels, -1)
    laid = jnp.einsum("jxy,ijco->ixcyo", places, kernel, precision="highest")
    lines = maps.reshape(rows, height, width * channels)
    seen = [lines[:, i : i + stride * (tall - 1) + 1 : stride] for i in range(side)]
    products = _flat(jnp.concatenate(seen, axis=-1)) @ laid.reshape(side * width * channels, -1)
    return products.reshape(rows, tall, wide, -1)


def patches(maps: jax.Array, stride: int, side: int = 3) -> jax.Array:
    """What a kernel sees at every place: [rows, height, width, side x side x channels]."""
    padded = jnp.pad(maps, ((0, 0), (1, 1), (1, 1), (0, 0))) if side == 3 else maps
    height, width = (length - side + 1 for length in padded.shape[1:3])
    taps = [(i, j) for i in range(side) for j in range(side)]
    views = [padded[:, i : i + height : stride, j : j + width : stride] for i, j in taps]
    return jnp.concatenate(views, axis=-1)


def _side(maps: jax.Array, weight: jax.Array) -> int:
    return isqrt(len(weight) // maps.shape[-1])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _applied(maps: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    return _forward(maps, weight, stride)[0]


def _forward(maps: jax.Array, weight: jax.Array, stride: int) -> tuple[jax.Array, Tree]:
    if maps.shape[-1] <= FEW and jax.default_backend() == "cpu":
        return _one_by_one(maps, weight, stride), (maps, None, weight)
    windows = patches(maps, stride, _side(maps, weight))
    outputs: jax.Array = product(_flat(windows), weight, False)
    return outputs.reshape(*windows.shape[:3], -1), (maps, windows, weight)


def _backward(stride: int, saved: Tree, d: jax.Array) -> tuple[jax.Array, jax.Array]:
    maps, windows, weight = saved
    side = _side(maps, weight)
    windows = patches(maps, stride, side) if windows is None else windows
    slopes = product(_flat(d), weight, True).reshape(windows.shape)
    collect = jax.linear_transpose(partial(patches, stride=stride, side=side), maps)
    back = _spread(slopes, maps.shape) if stride == 2 and side == 3 else collect(slopes)[0]
    return back, weight_gradient(_flat(windows), _flat(d), False)


_applied.defvjp(_forward, _backward)


def _flat(maps: jax.Array) -> jax.Array:
    return maps.reshape(-1, maps.shape[-1])


def _one_by_one(maps: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    """The same sums without patches, in one pass."""
    windows = patches(maps, stride, _side(maps, weight))
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
