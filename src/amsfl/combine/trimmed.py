"""The coordinate-wise trimmed mean."""

from amsfl.combine.base import Left, alone, by_step
from amsfl.combine.weighted import between, doubted
from amsfl.core import Combine, Upload
from amsfl.core.records import Array


def trimmed(attackers: float) -> Combine:
    """Of every coordinate the mean of what is left without the lowest and the highest of `attackers` clients.

    m = 1/(1-2a) integral of the weighted quantiles from a to 1-a,   a the weight of `attackers` clients

    Yin et al. 2018, arXiv 1803.01498, with weights. Where `attackers` clients hold half, it is the median.
    """
    share = doubted("trimmed", attackers)

    def rule(uploads: Upload, weights: Array) -> Left:
        doubt = share(weights)
        kept = [between(part, weights, doubt, 1 - doubt) for part in uploads]
        means = [(by * part).sum(0) / by.sum(0) for by, part in zip(kept, uploads, strict=True)]
        return alone(means, weights, kept[0] @ (1 / kept[0].sum(0)) / len(means[0]))

    return by_step(f"trimmed:{attackers:g}", rule, attackers)
