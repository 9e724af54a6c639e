"""What a private step is made of: sums that no input can make longer than they may be, and chance of the
system's own.

Models come from the server, which may choose them so that squares underflow, products overflow or one row
gives NaN. Every row counts at most `clip`, whatever its gradient is, and a sum that is longer than that of
so many rows, or not finite, is replaced by zero. Real clients draw batches and noise, real servers their
cohorts, where nobody who knows a run's seed can work them out; a simulation draws both from its seed
(amsfl.sampling), and protects nobody.
"""

import os
from typing import Any

import numpy as np

from amsfl.core import RowPrivacy, namespace

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

SLACK = 1e-3  # relative: rounding of a sum of many rows
SMALLEST, LARGEST = 2.0**-100, 2.0**100  # numbers whose inverses no processor rounds to zero
PARTS = 4  # normal numbers that one is the sum of: the last bits of a single one tell what it was added to


def norms(rows: Any) -> Any:
    """Euclidean norms [n] of rows [n, d]; squares neither underflow nor overflow. A row that is not finite or
    has a number above LARGEST has infinity."""
    space = namespace(rows)
    if not rows.shape[1]:
        return rows.sum(1)
    largest = space.max(space.abs(rows), axis=1)
    scale = space.clip(largest, SMALLEST, LARGEST)
    lengths = space.sqrt(((rows / scale[:, None]) ** 2).sum(1)) * scale
    return space.where(largest <= LARGEST, lengths, space.full_like(largest, space.inf))


def row_factors(private: RowPrivacy, lengths: Any, present: Any) -> Any:
    """What rows' gradients of these norms [n] are multiplied by: 0 where a row is not present or not finite;
    those longer than the clip become as long as it is."""
    space, clip = namespace(lengths), private.clip
    counted = present & space.isfinite(lengths)
    factors = clip / space.maximum(space.where(counted, lengths, 0 * lengths), 0 * lengths + clip)
    return space.where(counted, factors, space.zeros_like(lengths))


def weighted_sum(factors: Any, rows: Any) -> Any:
    """sum_i factors_i rows_i over [n, ...]; rows of factor 0 count nothing, whatever is in them."""
    space = namespace(rows)
    shaped = space.reshape(factors, (-1, *[1] * (rows.ndim - 1)))
    return (space.where(shaped > 0, rows, space.zeros_like(rows)) * shaped).sum(0)


def is_safe(length: Any, rows: Any, clip: float) -> Any:
    """Whether a sum of so many rows may be used; a length that is not a number is not safe."""
    return length <= rows * clip * (1 + SLACK)


def chosen(word: int, rows: int) -> Ints:
    """The places of the rows that are in, each by itself with the chance of `word` (sampling.chance): the
    largest of 2^32 words by which a row is in."""
    return np.flatnonzero(np.frombuffer(os.urandom(4 * rows), np.uint32) <= np.uint32(word))


def normal(size: int) -> Floats:
    """Standard normal numbers, in double precision."""
    count = -(-size // 2)
    bits = np.frombuffer(os.urandom(2 * 8 * PARTS * count), np.uint64).reshape(2, PARTS, count)
    radius, angle = ((bits >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53  # above 0, below 1
    length, turn = np.sqrt(-2 * np.log(radius)), 2 * np.pi * angle
    pairs = np.concatenate([length * np.cos(turn), length * np.sin(turn)], axis=1)
    return np.asarray(pairs.sum(0)[:size] / PARTS**0.5)
