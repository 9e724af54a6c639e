"""The coordinate-wise trimmed mean."""

from amsfl.combine.base import by_step, one
from amsfl.combine.weighted import cut, doubted
from amsfl.core import Combine, Upload, namespace
from amsfl.core.records import Array


def trimmed(foes: float) -> Combine:
    """Of every coordinate the mean of what is left without the lowest and the highest of `foes` clients.

    m = 1/(1-2a) integral of the weighted quantiles from a to 1-a,   a the weight of `foes` clients

    Yin et al. 2018, arXiv 1803.01498, with weights. Where `foes` clients hold half, it is the median.
    """
    share = doubted("trimmed", foes)

    def rule(uploads: Upload, weights: Array) -> tuple[Upload, Array]:
        return Upload(*(_inner_mean(part, weights, share(weights))[None] for part in uploads)), one(weights)

    return by_step(f"trimmed:{foes:g}", rule)


def _inner_mean(values: Array, weights: Array, share: Array) -> Array:
    space = namespace(values)
    order = space.argsort(values, axis=0, stable=True)
    kept = cut(space.take(weights, order), share, 1 - share)
    return (kept * space.take_along_axis(values, order, axis=0)).sum(0) / kept.sum(0)
