"""A network's logits in numpy, for whoever has nothing else."""

from collections.abc import Callable

import numpy as np

from amsfl.portable.network import KERNEL, Array, LayerSpec, Tensors, check_rows

VARIANCE_FLOOR = 1e-5  # what is added to a variance before its root is taken, as in torch


def logits(parts: tuple[LayerSpec, ...], tensors: Tensors, x: Array) -> Array:
    """[rows, classes]: in float64 if the rows are so."""
    x = x if x.dtype == np.float64 else np.asarray(x, np.float32)
    check_rows(parts, x)
    kept, none = x, np.zeros(0, x.dtype)
    for part in parts:
        if part.kind == "keep":
            kept = x
        elif part.kind == "add":
            x = x + kept
        else:
            weight, bias = (tensors.get(f"{part.name}.{kind}", none) for kind in ("weight", "bias"))
            x = KINDS[part.kind](part, x, weight, bias)
    return x


def _convolved(part: LayerSpec, maps: Array, weight: Array, bias: Array) -> Array:
    padded = np.pad(maps, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(2, 3))
    windows = windows[:, :, :: part.stride, :: part.stride]
    return np.asarray(np.einsum("ncijkl,ockl->noij", windows, weight, optimize=True) + bias[:, None, None])


def _normalised(x: Array) -> Array:
    """Mean 0 and variance 1 along the last axis."""
    away = x - x.mean(-1, keepdims=True)
    return np.asarray(away / np.sqrt((away * away).mean(-1, keepdims=True) + x.dtype.type(VARIANCE_FLOOR)))


def _attended(part: LayerSpec, x: Array, *_: Array) -> Array:
    rows, places, _width = x.shape
    q, k, v = x.reshape(rows, places, 3, part.many, -1).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / x.dtype.type(q.shape[-1] ** 0.5)
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = chances / chances.sum(-1, keepdims=True) @ v
    return np.asarray(mixed.transpose(0, 2, 1, 3).reshape(rows, places, -1))


KINDS: dict[str, Callable[[LayerSpec, Array, Array, Array], Array]] = {
    "dense": lambda part, x, weight, bias: x @ weight.T + bias,
    "conv": _convolved,
    "relu": lambda part, x, *_: np.maximum(x, 0),
    "image": lambda part, x, *_: x.reshape(len(x), part.outputs, part.inputs, part.inputs),
    "flatten": lambda part, x, *_: x.reshape(len(x), -1),
    "mean": lambda part, x, *_: x.mean(1),
    "level": lambda part, x, weight, bias: _normalised(x) * weight + bias,
    "tokens": lambda part, x, weight, bias: (weight[x.astype(np.int64)] + bias).astype(x.dtype),
    "attend": _attended,
}
