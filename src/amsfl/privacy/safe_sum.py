"""Sums of rows' gradients that no input can make longer than they may be.

Models come from the server, which may choose them so that squares underflow, products overflow or one row
gives NaN. Every row counts at most `clip`, whatever its gradient is, and a sum that is longer than that of so
many rows, or not finite, is replaced by zero.
"""

from typing import Any

from amsfl.core import RowPrivacy, namespace

SLACK = 1e-3  # relative: rounding of a sum of many rows
SMALLEST, LARGEST = 2.0**-100, 2.0**100  # numbers whose inverses no processor rounds to zero


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
