"""Sums over axes of float64 arrays, typed as what they are (numpy types them as anything)."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def total(x: Array, axis: int = -1) -> Array:
    return np.asarray(np.sum(x, axis=axis))


def contract(spec: str, *arrays: Array) -> Array:
    """Einstein's sum."""
    return np.asarray(np.einsum(spec, *arrays))
