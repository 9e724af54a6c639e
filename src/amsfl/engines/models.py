"""Models: equinox modules that take a batch, or any pair of functions init and apply."""

from collections.abc import Callable
from itertools import pairwise
from math import isqrt
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from amsfl.core import UserError, nearest

Params = Any


class Model(NamedTuple):
    """init(key) -> parameters, any pytree of arrays; apply(parameters, rows) -> logits."""

    name: str
    init: Callable[[jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]


class Dense(eqx.Module):
    weight: jax.Array
    bias: jax.Array

    def __init__(self, inputs: int, outputs: int, key: jax.Array):
        scale = inputs**-0.5
        self.weight = jax.random.uniform(key, (inputs, outputs), minval=-scale, maxval=scale)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Dense layers with ReLU between; without hidden layers this is softmax regression."""

    layers: tuple[Dense, ...]

    def __init__(self, sizes: tuple[int, ...], key: jax.Array):
        pairs = list(pairwise(sizes))
        self.layers = tuple(
            Dense(i, o, k) for (i, o), k in zip(pairs, jax.random.split(key, len(pairs)), strict=True)
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


class CNN(eqx.Module):
    """Two 3x3 convolutions with stride 1 and 2 over square one-channel images, then a dense layer."""

    side: int = eqx.field(static=True)
    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    last: Dense

    def __init__(self, features: int, classes: int, key: jax.Array, channels: int = 16):
        self.side = isqrt(features)
        if self.side**2 != features:
            raise UserError(
                f"The cnn model needs square images, and {features} features are none; "
                "use --model mlp or --model softmax."
            )
        one, two, three = jax.random.split(key, 3)
        self.first = eqx.nn.Conv2d(1, channels, 3, padding=1, key=one)
        self.second = eqx.nn.Conv2d(channels, channels, 3, stride=2, padding=1, key=two)
        self.last = Dense(channels * ((self.side + 1) // 2) ** 2, classes, three)

    def __call__(self, x: jax.Array) -> jax.Array:
        image = x.reshape(-1, 1, self.side, self.side)
        maps = jax.nn.relu(jax.vmap(self.second)(jax.nn.relu(jax.vmap(self.first)(image))))
        return self.last(maps.reshape(x.shape[0], -1))


def from_module(name: str, build: Callable[[jax.Array], eqx.Module]) -> Model:
    """A Model from an equinox module's constructor: its arrays are the parameters."""
    _, static = eqx.partition(eqx.filter_eval_shape(build, jax.random.key(0)), _is_array)

    def init(key: jax.Array) -> Params:
        return eqx.partition(build(key), eqx.is_array)[0]

    def apply(params: Params, x: jax.Array) -> jax.Array:
        module: Any = eqx.combine(params, static)
        logits: jax.Array = module(x)
        return logits

    return Model(name, init, apply)


def make(spec: str, features: int, classes: int) -> Model:
    """`softmax`, `mlp` (64-32), `mlp:128-64` (hidden sizes) or `cnn`."""
    kind, _, sizes = spec.partition(":")
    if kind == "softmax" and not sizes:
        return from_module(spec, lambda key: MLP((features, classes), key))
    if kind == "mlp":
        hidden = _hidden(spec, sizes or "64-32")
        return from_module(spec, lambda key: MLP((features, *hidden, classes), key))
    if kind == "cnn" and not sizes:
        return from_module(spec, lambda key: CNN(features, classes, key))
    raise UserError(f"Unknown model {spec!r}{nearest(kind, ['softmax', 'mlp', 'cnn'])}.")


def _hidden(spec: str, sizes: str) -> tuple[int, ...]:
    parts = sizes.split("-")
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise UserError(f"Model {spec!r}: hidden sizes are positive numbers joined by '-', as in mlp:64-32.")
    return tuple(int(part) for part in parts)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)
