"""The coordinate-wise median."""

from amsfl.combine.base import Left, alone, by_step
from amsfl.combine.weighted import middle, middles
from amsfl.core import Combine, Upload
from amsfl.core.records import Array


def median() -> Combine:
    """Of every coordinate the weighted median: a client of weight 2 counts as two of weight 1.

    Yin et al. 2018, arXiv 1803.01498, with weights.

    Returns:
        The rule.
    """

    def rule(uploads: Upload, weights: Array) -> Left:
        found = [middle(part, weights) for part in uploads]
        return alone(found, weights, lambda: middles(uploads.delta, weights))

    return by_step("median", rule)
