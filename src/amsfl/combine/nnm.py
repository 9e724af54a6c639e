"""Nearest-neighbour mixing."""

from amsfl.combine.base import Left, by_step, mixed
from amsfl.combine.weighted import distances_sq, doubted, nearest
from amsfl.core import Combine, Upload
from amsfl.core.records import Array


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
