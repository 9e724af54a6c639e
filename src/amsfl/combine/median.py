"""The coordinate-wise median."""

from amsfl.combine.base import by_step, one
from amsfl.combine.weighted import middle
from amsfl.core import Combine, Upload
from amsfl.core.records import Array


def median() -> Combine:
    """Of every coordinate the weighted median: a client of weight 2 counts as two of weight 1.

    Yin et al. 2018, arXiv 1803.01498, with weights.
    """

    def rule(uploads: Upload, weights: Array) -> tuple[Upload, Array]:
        return Upload(*(middle(part, weights)[None] for part in uploads)), one(weights)

    return by_step("median", rule)
