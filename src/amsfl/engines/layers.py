"""Layers as jax runs them: dense ones, convolutions of 3x3 kernels, lists of them (portable/network.py).

Dense layers' gradients are products that the CPU is good at. The gradient of x W is x' d: a product with its
left side transposed, for which XLA has no fast kernel on the CPU (twice the time of x W itself, a third of a
client step). Transposed beforehand, at the cost of one small copy, all products of a step take the fast one:
a client step of job A of benchmarks/ takes 0.81 of the time, one of job B 0.75.

Convolutions are products of patches: XLA's own are slow where every client has kernels of its own (a client
step of the built-in cnn on 28x28 images took ten times as long). On a CPU their gradients are slow for a
single client as well.

A list's parameters are one Layer for each part that has a name. Images are [rows, height, width, channels]
here, and a convolution's weight is [3 x 3 x inputs, outputs].
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from amsfl.core.records import Tree
from amsfl.portable.network import VARIANCE_FLOOR, Layer, Layers, LayerSpec, flips


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: jax.Array, weight: jax.Array, flipped: bool) -> jax.Array:
    """x W, with W [inputs, outputs] or flipped; its gradients are d W' and x' d."""
    return times(x, weight, turn_b=flipped)


def _product_forward(x: jax.Array, weight: jax.Array, flipped: bool) -> tuple[jax.Array, Tree]:
    return times(x, weight, turn_b=flipped), (x, weight)


def _product_backward(flipped: bool, saved: Tree, d: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weight = saved
    return times(d, weight, turn_b=not flipped), weight_gradient(x, d, flipped)


def weight_gradient(x: jax.Array, d: jax.Array, flipped: bool) -> jax.Array:
    """x' d, the gradient of W, or flipped as W is."""
    sides = (d, x) if flipped else (x, d)
    return times(*sides, turn_a=True)


product.defvjp(_product_forward, _product_backward)


def times(a: jax.Array, b: jax.Array, turn_a: bool = False, turn_b: bool = False) -> jax.Array:
    """a b of two matrices, with a or b or both transposed."""
    if turn_a and not turn_b and a.size > b.size + a.shape[1] * b.shape[1] and jax.default_backend() == "cpu":
        return _laid_out(_laid_out(b.T) @ a).T  # the other side and the product are less to transpose
    return (_laid_out(a.T) if turn_a else a) @ (b.T if turn_b else b)


def _laid_out(side: jax.Array) -> jax.Array:
    """As rows in memory on the CPU; elsewhere products take a transposed side as it is."""
    return jax.lax.optimization_barrier(side) if jax.default_backend() == "cpu" else side


FEW = 3  # channels of a map that are added up one by one: products of 9 to 27 columns take longer


def convolve(layer: Layer, maps: jax.Array, stride: int) -> jax.Array:
    """[rows, height, width, channels] -> the same with other channels; edges are padded by one."""
    outputs: jax.Array = _convolved(maps, layer.weight, stride) + layer.bias
    return outputs


def patches(maps: jax.Array, stride: int) -> jax.Array:
    """What a kernel sees at every place: [rows, height, width, 3 x 3 x channels]."""
    padded = jnp.pad(maps, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = maps.shape[1:3]
    views = [padded[:, i : i + height : stride, j : j + width : stride] for i in range(3) for j in range(3)]
    return jnp.concatenate(views, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _convolved(maps: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    return _patches_forward(maps, weight, stride)[0]


def _patches_forward(maps: jax.Array, weight: jax.Array, stride: int) -> tuple[jax.Array, Tree]:
    if maps.shape[-1] <= FEW and jax.default_backend() == "cpu":
        return _one_by_one(maps, weight, stride), (maps, None, weight)
    windows = patches(maps, stride)
    outputs: jax.Array = product(_flat(windows), weight, False)
    return outputs.reshape(*windows.shape[:3], -1), (maps, windows, weight)


def _patches_backward(stride: int, saved: Tree, d: jax.Array) -> tuple[jax.Array, jax.Array]:
    maps, windows, weight = saved
    windows = patches(maps, stride) if windows is None else windows
    slopes = product(_flat(d), weight, True).reshape(windows.shape)
    (back,) = jax.linear_transpose(partial(patches, stride=stride), maps)(slopes)
    return back, weight_gradient(_flat(windows), _flat(d), False)


_convolved.defvjp(_patches_forward, _patches_backward)


def _flat(maps: jax.Array) -> jax.Array:
    return maps.reshape(-1, maps.shape[-1])


def _one_by_one(maps: jax.Array, weight: jax.Array, stride: int) -> jax.Array:
    """The same sums without patches, in one pass."""
    windows = patches(maps, stride)
    total = windows[..., 0, None] * weight[0]
    for place in range(1, len(weight)):
        total = total + windows[..., place, None] * weight[place]
    return total


def apply(parts: tuple[LayerSpec, ...], params: Layers, x: jax.Array) -> jax.Array:
    layers = iter(zip(params, flips(len(params)), strict=True))
    saved = x
    for part in parts:
        if part.kind == "keep":
            saved = x
        elif part.kind == "add":
            x = x + saved
        elif part.kind == "dense":
            layer, flip = next(layers)
            flat = product(x.reshape(-1, x.shape[-1]), layer.weight, flip) + layer.bias
            x = flat.reshape(*x.shape[:-1], -1)
        else:
            x = KINDS[part.kind](part, next(layers)[0] if part.name else None, x)
    return x


def _normalised(x: jax.Array) -> jax.Array:
    """To mean 0 and variance 1 along the last axis."""
    away = x - x.mean(-1, keepdims=True)
    return away * jax.lax.rsqrt((away * away).mean(-1, keepdims=True) + VARIANCE_FLOOR)


def attend(x: jax.Array, heads: int) -> jax.Array:
    """[rows, places, queries, keys and values] -> [rows, places, width]: by head softmax(q k') v."""
    rows, places, wide = x.shape
    q, k, v = x.reshape(rows, places, 3, heads, wide // (3 * heads)).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    mixed: jax.Array = jax.nn.softmax(scores) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(rows, places, wide // 3)


@jax.custom_vjp
def embed(table: jax.Array, numbers: jax.Array) -> jax.Array:
    """The rows of a table by number; its gradient adds up in one order on every device."""
    return table[numbers]


def _embed_forward(table: jax.Array, numbers: jax.Array) -> tuple[jax.Array, Tree]:
    return table[numbers], (numbers, table)


def _embed_backward(saved: Tree, d: jax.Array) -> tuple[jax.Array, None]:
    numbers, table = saved
    flat, d = numbers.reshape(-1), d.reshape(-1, d.shape[-1])
    if jax.default_backend() == "cpu":
        return jnp.zeros_like(table).at[flat].add(d), None
    # a scatter adds in no fixed order on a GPU, where a product is cheap
    member = jax.nn.one_hot(flat, len(table), dtype=d.dtype, axis=0)
    return jnp.matmul(member, d, precision="highest"), None


embed.defvjp(_embed_forward, _embed_backward)


KINDS: dict[str, Callable[[LayerSpec, Tree, jax.Array], jax.Array]] = {
    "relu": lambda part, _, x: jax.nn.relu(x),
    "image": lambda part, _, x: x.reshape(-1, part.outputs, part.inputs, part.inputs).transpose(0, 2, 3, 1),
    "conv": lambda part, layer, x: convolve(layer, x, part.stride),
    "flatten": lambda part, _, x: x.reshape(len(x), -1),
    "tokens": lambda part, layer, x: embed(layer.weight, x.astype(jnp.int32)) + layer.bias,
    "level": lambda part, layer, x: _normalised(x) * layer.weight + layer.bias,
    "attend": lambda part, _, x: attend(x, part.many),
    "mean": lambda part, _, x: x.mean(1),
}
