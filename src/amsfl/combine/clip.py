"""Norm bounding."""

from amsfl.combine.base import Left, by_step, each
from amsfl.combine.weighted import lengths, middle
from amsfl.core import Combine, Upload, UserError, namespace
from amsfl.core.records import Array


def clip(norm: float = 0.0) -> Combine:
    """No client's mean step is longer than `norm`; without a number, than the weighted median of all.

    x_i <- x_i min(1, norm / ||x_i||)

    Sun et al. 2019, arXiv 1911.07963.
    """
    if norm < 0:
        raise UserError(
            f"The rule 'clip:{norm:g}': a length is above 0, as in clip:1.0; clip alone finds one."
        )

    def rule(uploads: Upload, weights: Array) -> Left:
        space = namespace(weights)
        length = lengths(uploads.delta)
        limit = norm or middle(length, weights)
        by = space.minimum(space.ones_like(length), limit / (length + (length == 0)))
        rows = Upload(uploads.delta * by[:, None], uploads.extra * by[:, None], uploads.delta_sq * by * by)
        return Left(rows, weights, each(by))

    return by_step(f"clip:{norm:g}", rule)
