"""First models of dense networks in numpy: jax.random's own numbers, with no program to compile for them."""

from typing import Any

import numpy as np

from amsfl.core.records import Array
from amsfl.engines.dense import flips
from amsfl.portable.network import LayerSpec

Words = np.ndarray[Any, np.dtype[np.uint32]]
ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = np.uint32(0x1BD11BDA)


def is_dense(parts: tuple[LayerSpec, ...]) -> bool:
    """Whether a network is dense layers with ReLU between."""
    return bool(parts) and all(part.kind in ("dense", "relu") for part in parts)


def drawn(parts: tuple[LayerSpec, ...], seed: int) -> Array:
    """The flat vector that a dense network begins from, as `layers.init` draws it."""
    layers = [part for part in parts if part.name]
    zero, count = np.zeros(len(layers), np.uint32), np.arange(len(layers), dtype=np.uint32)
    keys = zip(*threefry(np.array([0, seed], np.uint32), zero, count), strict=True)
    vectors: list[Array] = []
    for layer, flip, key in zip(layers, flips(len(layers)), keys, strict=True):
        scale = np.float32(layer.inputs**-0.5)
        weight = uniform(np.array(key), layer.inputs * layer.outputs) * (2 * scale) - scale
        weight = weight.reshape(layer.inputs, layer.outputs)
        vectors += [(weight.T if flip else weight).ravel(), np.zeros(layer.outputs, np.float32)]
    return np.concatenate(vectors)


def uniform(key: Words, count: int) -> Array:
    """Float32 numbers in [0, 1)."""
    place = np.arange(count, dtype=np.uint32)
    high, low = threefry(key, np.zeros_like(place), place)
    one = np.uint32(0x3F800000)  # with other bits behind it: a number in [1, 2)
    return ((high ^ low) >> np.uint32(9) | one).view(np.float32) - np.float32(1)


def threefry(key: Words, x: Words, y: Words) -> tuple[Words, Words]:
    """Threefry-2x32 (Salmon and others 2011), of 20 turns."""
    keys = key[0], key[1], key[0] ^ key[1] ^ PARITY
    with np.errstate(over="ignore"):  # words wrap around on purpose
        x, y = x + keys[0], y + keys[1]
        for turn in range(1, 6):
            for by in ROTATIONS[(turn - 1) % 2]:
                x = x + y
                y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
            x, y = x + keys[turn % 3], y + keys[(turn + 1) % 3] + np.uint32(turn)
    return x, y
