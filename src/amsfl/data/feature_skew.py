"""Clients whose features differ: noise or a scale of their own, more of it from client to client."""

from collections.abc import Callable, Sequence

import numpy as np

from amsfl.core import UserError, nearest
from amsfl.data.dataset import FloatArray, IntArray, random_stream

SKEWS: dict[str, Callable[[FloatArray, float, float, np.random.Generator], FloatArray]] = {
    # Gaussian noise with a deviation from 0, the first client's, to `size`, the last one's
    "noise": lambda x, size, part, rng: (
        x + np.float32(size * part) * rng.standard_normal(x.shape, np.float32)
    ),
    # features times 1, the first client's, to `size`, in equal ratios
    "scale": lambda x, size, part, rng: x * np.float32(size**part),
}


def skew_features(spec: str, x: FloatArray, parts: Sequence[IntArray], seed: int) -> FloatArray:
    """The rows as their clients have them, by `noise:0.1` or `scale:2`.

    Noise is drawn once: a row looks the same in every round.
    """
    name, _, number = spec.partition(":")
    if name not in SKEWS:
        raise UserError(f"Unknown feature skew {spec!r}{nearest(name, SKEWS)}; write noise:0.1 or scale:2.")
    try:
        size = float(number)
    except ValueError:
        size = 0.0
    if not 0 < size <= 1e6:
        raise UserError(f"The feature skew {spec!r} needs a number above 0, as in {name}:0.1.")
    skewed, last = x.copy(), max(len(parts) - 1, 1)
    for client, rows in enumerate(parts):
        skewed[rows] = SKEWS[name](x[rows], size, client / last, random_stream(seed, f"skew {client}"))
    return skewed
