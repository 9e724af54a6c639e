"""Centred clipping."""

from amsfl.combine.base import by_step, one
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

    def moved(centre: Array, rows: Array, weights: Array) -> Array:
        space = namespace(rows)
        apart = lengths(rows - centre)
        limit = radius or middle(apart, weights)
        least = space.minimum(space.ones_like(apart), limit / (apart + (apart == 0)))
        return centre + (weights * least) @ (rows - centre)

    def rule(uploads: Upload, weights: Array) -> tuple[Upload, Array]:
        delta, extra = uploads.delta[0] * 0, uploads.extra[0] * 0
        for _ in range(int(rounds)):
            delta, extra = moved(delta, uploads.delta, weights), moved(extra, uploads.extra, weights)
        found = Upload(delta, extra, middle(uploads.delta_sq, weights))
        return Upload(*(part[None] for part in found)), one(weights)

    return by_step(f"centred:{radius:g}/{rounds:g}", rule)
