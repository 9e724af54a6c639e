"""The coordinate-wise median."""

from amsfl.core import Combine, Upload, namespace
from amsfl.core.records import Array

HALF = 1e-6  # weights are rounded: two that sum to a half up to this do


def median() -> Combine:
    """Of every coordinate the weighted median: a client of weight 2 counts as two of weight 1.

    m = (inf {v: W(v) >= 1/2} + inf {v: W(v) > 1/2}) / 2,   W(v) the weight of all values up to v

    Yin et al. 2018, arXiv 1803.01498, with weights.
    """

    def apply(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
        return Upload(*(_middle(part, weights)[None] for part in uploads)), weights[:1] * 0 + 1

    return Combine("median", apply)


def _middle(values: Array, weights: Array) -> Array:
    """Along the first axis."""
    space = namespace(values)
    order = space.argsort(values, axis=0, stable=True)
    sorted_ = space.take_along_axis(values, order, axis=0)
    upto = space.cumulative_sum(space.take(weights, order), axis=0) / space.sum(weights)
    low = space.argmax(upto >= 0.5 - HALF, axis=0)
    high = space.argmax(upto > 0.5 + HALF, axis=0)
    picked = [space.take_along_axis(sorted_, at[None], axis=0)[0] for at in (low, high)]
    return (picked[0] + picked[1]) / 2
