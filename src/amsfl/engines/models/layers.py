"""A list of layers (portable/network.py) as jax runs it: how each kind begins, computes, and is stored.

Parameters are one Layer for each part that has a name. Images are [rows, height, width, channels] here, and
a convolution's weight is [3 x 3 x inputs, outputs]; a dense weight lies as `dense.py` says.
"""

from collections.abc import Callable
from math import isqrt, prod

import jax
import jax.numpy as jnp

from amsfl.core.records import Json, Tree
from amsfl.engines.convolution import convolve, kernels
from amsfl.engines.dense import Layer, flips, product
from amsfl.portable.network import KERNEL, VARIANCE_FLOOR, LayerSpec, shapes

Params = tuple[Layer, ...]


def numbers(parts: tuple[LayerSpec, ...]) -> int:
    return sum(prod(shape) for shape in shapes(parts).values())


def init(parts: tuple[LayerSpec, ...], key: jax.Array) -> Params:
    named = [part for part in parts if part.name]
    keys = jax.random.split(key, len(named))
    return tuple(_begun(*each) for each in zip(named, flips(len(named)), keys, strict=True))


def zeros(parts: tuple[LayerSpec, ...], key: jax.Array) -> Params:
    return jax.tree.map(jnp.zeros_like, init(parts, key))  # type: ignore[no-any-return]


def apply(parts: tuple[LayerSpec, ...], params: Params, x: jax.Array) -> jax.Array:
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


def stored(parts: tuple[LayerSpec, ...], params: Params) -> Json:
    """The tensors by name in the shapes that others have them in."""
    tensors: Json = {}
    named = [part for part in parts if part.name]
    channels = sum(part.inputs for part in parts if part.kind == "flatten")
    for part, flip, (weight, bias) in zip(named, flips(len(named)), params, strict=True):
        if part.kind == "dense":
            weight = weight if flip else weight.T
            if channels:  # of the first dense layer after maps: here channels come last
                side = isqrt(part.inputs // channels)
                weight = weight.reshape(-1, side, side, channels).transpose(0, 3, 1, 2)
                weight, channels = weight.reshape(part.outputs, part.inputs), 0
        elif part.kind == "conv":
            weight = weight.reshape(KERNEL, KERNEL, part.inputs, part.outputs).transpose(3, 2, 0, 1)
        tensors |= {f"{part.name}.weight": weight, f"{part.name}.bias": bias}
    return tensors


def _begun(part: LayerSpec, flip: bool, key: jax.Array) -> Layer:
    if part.kind == "dense":
        scale = part.inputs**-0.5
        weight = jax.random.uniform(key, (part.inputs, part.outputs), minval=-scale, maxval=scale)
        return Layer(weight.T if flip else weight, jnp.zeros(part.outputs))
    if part.kind == "conv":
        return kernels(part.inputs, part.outputs, key)
    if part.kind == "tokens":
        one, two = jax.random.split(key)
        shape = (part.inputs, part.outputs), (part.many, part.outputs)
        return Layer(0.1 * jax.random.normal(one, shape[0]), 0.1 * jax.random.normal(two, shape[1]))
    return Layer(jnp.ones(part.inputs), jnp.zeros(part.inputs))


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


def _forward(table: jax.Array, numbers: jax.Array) -> tuple[jax.Array, Tree]:
    return table[numbers], (numbers, table)


def _backward(saved: Tree, d: jax.Array) -> tuple[jax.Array, None]:
    numbers, table = saved
    flat, d = numbers.reshape(-1), d.reshape(-1, d.shape[-1])
    if jax.default_backend() == "cpu":
        return jnp.zeros_like(table).at[flat].add(d), None
    # a scatter adds in no fixed order on a GPU, where a product is cheap
    member = jax.nn.one_hot(flat, len(table), dtype=d.dtype, axis=0)
    return jnp.matmul(member, d, precision="highest"), None


embed.defvjp(_forward, _backward)


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
