"""One upload in the midst of all: the geometric median, and centred clipping."""

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
        return alone(median, weights, shares)

    return by_step(f"geomedian:{nearest:g}/{rounds:g}", rule)


def centred(radius: float = 0.0, rounds: float = 3) -> Combine:
    """The mean of uploads that may pull at most so far from a centre, which moves to it; from zero.

    v <- v + sum_i w_i (x_i - v) min(1, radius / ||x_i - v||);   radius 0: the weighted median distance

    Karimireddy, He and Jaggi 2021, arXiv 2012.10333; without its memory of the last round's centre.
    """
    if not (radius >= 0 and rounds >= 1):
        raise UserError("The rule 'centred' takes a radius from 0 and rounds from 1, as in centred:0.5/3.")

    def pull(centre: Array, rows: Array, weights: Array) -> Array:
        space = namespace(rows)
        apart = lengths(rows - centre)
        limit = radius or middle(apart, weights)
        least = space.minimum(space.ones_like(apart), limit / (apart + (apart == 0)))
        return weights * least

    def rule(uploads: Upload, weights: Array) -> Left:
        delta, extra, counts = uploads.delta[0] * 0, uploads.extra[0] * 0, weights * 0
        for _ in range(int(rounds)):
            by, beside = pull(delta, uploads.delta, weights), pull(extra, uploads.extra, weights)
            delta, extra = delta + by @ (uploads.delta - delta), extra + beside @ (uploads.extra - extra)
            counts = (1 - by.sum()) * counts + by
        return alone((delta, extra, middle(uploads.delta_sq, weights)), weights, counts)

    return by_step(f"centred:{radius:g}/{rounds:g}", rule)
