"""The coordinate-wise trimmed mean."""

from amsfl.combine.base import Left, alone, by_step
from amsfl.combine.weighted import cut, doubted
from amsfl.core import Combine, Upload, namespace
from amsfl.core.records import Array


def trimmed(foes: float) -> Combine:
    """Of every coordinate the mean of what is left without the lowest and the highest of `foes` clients.

    m = 1/(1-2a) integral of the weighted quantiles from a to 1-a,   a the weight of `foes` clients

    Yin et al. 2018, arXiv 1803.01498, with weights. Where `foes` clients hold half, it is the median.
    """
    share = doubted("trimmed", foes)

    def rule(uploads: Upload, weights: Array) -> Left:
        found = [_inner_mean(part, weights, share(weights)) for part in uploads]
        return alone(found, weights, lambda: _inner(uploads.delta, weights, share(weights)))

    return by_step(f"trimmed:{foes:g}", rule)


def _inner_mean(values: Array, weights: Array, share: Array) -> Array:
    order, kept = _kept(values, weights, share)
    return (kept * namespace(values).take_along_axis(values, order, axis=0)).sum(0)


def _inner(values: Array, weights: Array, share: Array) -> Array:
    """How much of each row [n] is in it, on average over its coordinates."""
    space = namespace(values)
    order, kept = _kept(values, weights, share)
    return space.take_along_axis(kept, space.argsort(order, axis=0, stable=True), axis=0).mean(1)


def _kept(values: Array, weights: Array, share: Array) -> tuple[Array, Array]:
    """Rows in order, coordinate by coordinate, and how much of each counts."""
    space = namespace(values)
    order = space.argsort(values, axis=0, stable=True)
    kept = cut(space.take(weights, order), share, 1 - share)
    return order, kept / kept.sum(0)
