"""Clients whose features differ: noise or a scale of their own, more of it from client to client."""

from collections.abc import Callable, Sequence

import numpy as np

from amsfl.core import UserError, nearest
from amsfl.data.dataset import FloatArray, IntArray, random_stream

Skew = Callable[[FloatArray, float, np.random.Generator], FloatArray]


def _noise(size: float) -> Skew:
    """Gaussian noise with a deviation from 0, the first client's, to `size`, the last one's."""
    return lambda x, part, rng: x + np.float32(size * part) * rng.standard_normal(x.shape, np.float32)


def _scale(size: float) -> Skew:
    """Features times 1, the first client's, to `size`, in equal ratios."""
    return lambda x, part, rng: x * np.float32(size**part)


SKEWS: dict[str, Callable[[float], Skew]] = {"noise": _noise, "scale": _scale}


def parse_skew(spec: str) -> Skew:
    """`noise:0.1` or `scale:2`."""
    name, _, number = spec.partition(":")
    if name not in SKEWS:
        raise UserError(f"Unknown feature skew {spec!r}{nearest(name, SKEWS)}; write noise:0.1 or scale:2.")
    try:
        size = float(number)
    except ValueError:
        size = 0.0
    if not 0 < size <= 1e6:
        raise UserError(f"The feature skew {spec!r} needs a number above 0, as in {name}:0.1.")
    return SKEWS[name](size)


def skew_features(spec: str, x: FloatArray, parts: Sequence[IntArray], seed: int) -> FloatArray:
    """The rows as their clients have them. Noise is drawn once: a row looks the same in every round."""
    skew, skewed, last = parse_skew(spec), x.copy(), max(len(parts) - 1, 1)
    for client, rows in enumerate(parts):
        skewed[rows] = skew(x[rows], client / last, random_stream(seed, f"skew {client}"))
    return skewed
