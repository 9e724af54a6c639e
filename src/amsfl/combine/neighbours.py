"""Rules that go by who is near whom: Krum, Multi-Krum and mixing with the nearest."""

from amsfl.combine.base import Left, alone, by_step, mixed
from amsfl.combine.weighted import cut, distances_sq, doubted, nearest
from amsfl.core import Combine, Upload, namespace
from amsfl.core.records import Array


def krum(attackers: float) -> Combine:
    """The one upload whose neighbours are nearest; those of `attackers` clients' weight it may lie far from.

    argmin_i sum_{j near i} w_j ||x_i - x_j||^2,   over the nearest of weight 1-a, a of `attackers` clients

    Blanchard et al. 2017, with weights. (A client is its own nearest neighbour, at no distance.)
    """
    share = doubted("krum", attackers)

    def rule(uploads: Upload, weights: Array) -> Left:
        space = namespace(weights)
        best = space.argmin(_scores(uploads, weights, 1 - share(weights)))
        picked = space.astype(space.arange(len(weights)) == best, weights.dtype)
        return alone([part[best] for part in uploads], weights, picked)

    return by_step(f"krum:{attackers:g}", rule, attackers)


def multikrum(attackers: float) -> Combine:
    """The mean of the uploads whose neighbours are nearest, all but `attackers` clients' weight of them.

    El Mhamdi et al. 2018, arXiv 1802.07927, with weights.
    """
    share = doubted("multikrum", attackers)

    def rule(uploads: Upload, weights: Array) -> Left:
        space, true = namespace(weights), 1 - share(weights)
        order = space.argsort(_scores(uploads, weights, true), stable=True)
        kept = cut(space.take(weights, order), 0.0, true)[space.argsort(order, stable=True)]
        return mixed(uploads, kept[None] / kept.sum(), weights[:1] * 0 + 1)

    return by_step(f"multikrum:{attackers:g}", rule, attackers)


def _scores(uploads: Upload, weights: Array, true: Array) -> Array:
    """What is far comes last, and what does not count after that."""
    space = namespace(weights)
    apart = distances_sq(uploads.delta)
    score = (nearest(apart, weights, true) * apart).sum(1)
    return space.where(weights > 0, score, space.zeros_like(score) + float("inf"))


def nnm(attackers: float) -> Combine:
    """Every upload becomes the mean of its nearest, all but `attackers` clients' weight; a rule follows it.

    x_i <- sum_{j near i} w_j x_j / (1-a),   over the nearest of weight 1-a

    Honest clients of unlike data come closer together than a rule alone could tell them from false ones.
    Allouah et al. 2023, arXiv 2302.01772, with weights.
    """
    share = doubted("nnm", attackers)

    def rule(uploads: Upload, weights: Array) -> Left:
        near = nearest(distances_sq(uploads.delta), weights, 1 - share(weights))
        return mixed(uploads, near / near.sum(1)[:, None], weights)

    return by_step(f"nnm:{attackers:g}", rule, attackers)
