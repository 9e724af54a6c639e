"""Centred clipping."""

from amsfl.combine.base import Left, alone, by_step
from amsfl.combine.weighted import lengths, middle
from amsfl.core import Combine, Upload, UserError, namespace
from amsfl.core.records import Array


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
        return alone((delta, extra, middle(uploads.delta_sq, weights)), weights, lambda: counts)

    return by_step(f"centred:{radius:g}/{rounds:g}", rule)
