"""Limits on how long an upload may be, and on what one client may weigh."""

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


def cap(share: float) -> Combine:
    """No client counts more than `share` of the cohort, however many rows it claims.

    w_i <- min(w_i, u) / sum_j min(w_j, u),   u the largest for which no weight exceeds `share`

    Portnoy, Tirosh and Hendler 2020, arXiv 2004.04986. Where even equal weights exceed it, they are equal.
    The one rule that counts heads: a client of weight 2 is one client here.
    """
    if not 0 < share <= 1:
        raise UserError(f"The rule 'cap:{share:g}': a share is above 0 and at most 1, as in cap:0.2.")

    def rule(uploads: Upload, weights: Array) -> Left:
        return Left(uploads, capped(weights, share), each(weights * 0 + 1))

    return by_step(f"cap:{share:g}", rule)._replace(counts=lambda weights: capped(weights, share))


def capped(weights: Array, share: float) -> Array:
    """With the k heaviest at the limit, u = share (rest + k u); the least k whose u holds for the others."""
    space = namespace(weights)
    rising = space.sort(weights)
    falling, rest = space.flip(rising), space.flip(space.cumulative_sum(rising))
    heaviest = space.cumulative_sum(space.ones_like(weights)) - 1  # k = 0, 1, ...
    room = 1 - heaviest * share
    limit = share * rest / space.where(room > 0, room, space.ones_like(room))
    holds = (room > 0) & (limit >= falling) & (falling > 0)
    least = space.min(space.where(weights > 0, weights, space.zeros_like(weights) + float("inf")))
    cap = space.where(space.any(holds), limit[space.argmax(holds)], least)
    cut = space.minimum(weights, cap)
    return cut / space.sum(cut)
