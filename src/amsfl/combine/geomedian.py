"""The geometric median."""

from amsfl.combine.base import Left, alone, by_step
from amsfl.combine.weighted import lengths, middle
from amsfl.core import Combine, Upload, UserError, namespace
from amsfl.core.records import Array


def geomedian(nearest: float = 1e-6, rounds: float = 8) -> Combine:
    """The point whose distances to all uploads sum to the least, by smoothed Weiszfeld steps from zero.

    z <- sum_i b_i x_i / sum_i b_i,   b_i = w_i / max(||x_i - z||, nearest)

    Pillutla, Kakade and Harchaoui 2022, arXiv 1912.13445 (RFA).
    """
    if not (nearest > 0 and rounds >= 1):
        raise UserError("The rule 'geomedian' takes a distance above 0 and rounds from 1, as in 1e-6/8.")

    def rule(uploads: Upload, weights: Array) -> Left:
        space = namespace(weights)
        shares = weights
        centre = uploads.delta[0] * 0
        for _ in range(int(rounds)):
            apart = lengths(uploads.delta - centre)
            pull = weights / space.maximum(apart, space.zeros_like(apart) + nearest)
            shares = pull / pull.sum()
            centre = shares @ uploads.delta
        median = (centre, shares @ uploads.extra, middle(uploads.delta_sq, weights))
        return alone(median, weights, lambda: shares)

    return by_step(f"geomedian:{nearest:g}/{rounds:g}", rule)
