"""Rules that look at one round: limits on what a client may weigh and how far it may go, medians, Krum."""

from amsfl.combine.chain import by_step
from amsfl.combine.weighted import around_middle, between, doubted, lengths, middle, neighbour_distances
from amsfl.core import Combine, Upload, UserError, namespace
from amsfl.core.records import Array

Ruled = tuple[Upload, Array, Array]


def cap(share: float) -> Combine:
    """No client counts more than `share` of the cohort, however many rows it claims.

    w_i <- min(w_i, u) / sum_j min(w_j, u),   u the largest for which no weight exceeds `share`

    Portnoy, Tirosh and Hendler 2020, arXiv 2004.04986. Where even equal weights exceed it, they are equal.
    The one rule that counts heads: a client of weight 2 is one client here.
    """
    if not 0 < share <= 1:
        raise UserError(f"The rule 'cap:{share:g}': a share is above 0 and at most 1, as in cap:0.2.")

    def rule(uploads: Upload, weights: Array) -> Ruled:
        after = capped(weights, share)
        return uploads, after, after

    return by_step(f"cap:{share:g}", rule)._replace(capped=lambda weights: capped(weights, share))


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


def clip(norm: float = 0.0) -> Combine:
    """No client's mean step is longer than `norm`; without a number, than the weighted median of all.

    x_i <- x_i min(1, norm / ||x_i||)

    Sun et al. 2019, arXiv 1911.07963.
    """
    if norm < 0:
        raise UserError(
            f"The rule 'clip:{norm:g}': a length is above 0, as in clip:1.0; clip alone finds one."
        )

    def rule(uploads: Upload, weights: Array) -> Ruled:
        space = namespace(weights)
        length = lengths(uploads.delta)
        limit = norm or middle(length, weights)
        by = space.minimum(space.ones_like(length), limit / (length + (length == 0)))
        rows = Upload(uploads.delta * by[:, None], uploads.extra * by[:, None], uploads.delta_sq * by * by)
        return rows, weights, weights * by

    return by_step(f"clip:{norm:g}", rule)


def median() -> Combine:
    """Of every coordinate the weighted median: a client of weight 2 counts as two of weight 1.

    Yin et al. 2018, arXiv 1803.01498, with weights.

    Returns:
        The rule.
    """

    def rule(uploads: Upload, weights: Array) -> Ruled:
        return _alone([around_middle(part, weights) for part in uploads], uploads, weights)

    return by_step("median", rule)


def trimmed(attackers: float) -> Combine:
    """Of every coordinate the mean of what is left without the lowest and the highest of `attackers` clients.

    m = 1/(1-2a) integral of the weighted quantiles from a to 1-a,   a the weight of `attackers` clients

    Yin et al. 2018, arXiv 1803.01498, with weights. Where `attackers` clients hold half, it is the median.
    """
    share = doubted("trimmed", attackers)

    def rule(uploads: Upload, weights: Array) -> Ruled:
        doubt = share(weights)
        return _alone([between(part, weights, doubt, 1 - doubt) for part in uploads], uploads, weights)

    return by_step(f"trimmed:{attackers:g}", rule, attackers)


def krum(attackers: float) -> Combine:
    """The one upload whose neighbours are nearest; those of `attackers` clients' weight it may lie far from.

    argmin_i sum_{j near i} w_j ||x_i - x_j||^2,   over the nearest of weight 1-a, a of `attackers` clients

    Blanchard et al. 2017, with weights. (A client is its own nearest neighbour, at no distance.)
    """
    share = doubted("krum", attackers)

    def rule(uploads: Upload, weights: Array) -> Ruled:
        space = namespace(weights)
        score = neighbour_distances(uploads.delta, weights, 1 - share(weights))
        best = space.argmin(space.where(weights > 0, score, space.zeros_like(score) + float("inf")))
        picked = space.astype(space.arange(len(weights)) == best, weights.dtype)
        return Upload(*(part[best][None] for part in uploads)), weights[:1] * 0 + 1, picked

    return by_step(f"krum:{attackers:g}", rule, attackers)


def _alone(shares: list[Array], uploads: Upload, weights: Array) -> Ruled:
    """A single row that stands for all: sums of rows by such shares, coordinate by coordinate."""
    one = [(share * part).sum(0)[None] for share, part in zip(shares, uploads, strict=True)]
    return Upload(*one), weights[:1] * 0 + 1, shares[0].mean(1)
