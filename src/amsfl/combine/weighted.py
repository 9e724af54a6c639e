"""Ranks and neighbours where clients weigh unequally: a client of weight 2 is two equal clients."""

from collections.abc import Callable

from amsfl.core import UserError, namespace
from amsfl.core.records import Array

SMALL = 1e-6  # weights are rounded: two that differ by less are equal
FEW = 64  # rows that are counted, not sorted


def doubted(rule: str, foes: float) -> Callable[[Array], Array]:
    """From weights the share of them that may be false: of the heaviest `foes` clients, or `foes` below 1.

    Half is the most that any rule can stand. Where so few clients hold more, or so many are doubted of the
    few that came, it is taken for half: a real client that stays away must not end a run.
    """
    if not foes >= 0 or (foes % 1 if foes >= 1 else foes > 0.5):
        raise UserError(
            f"The rule '{rule}:{foes:g}': give it a whole number of clients, as in {rule}:2, "
            f"or a share of the weight up to a half, as in {rule}:0.2."
        )

    def share(weights: Array) -> Array:
        if foes < 1:
            return foes
        space = namespace(weights)
        heaviest = space.sort(weights)[max(0, len(weights) - int(foes)) :].sum()
        return space.minimum(heaviest, space.zeros_like(heaviest) + 0.5)

    return share


def cut(weights: Array, low: Array, high: Array) -> Array:
    """How much of each weight lies between two ranks, as shares of the sum; weights in order, axis 0.

    Between two equal ranks (the middle of all) it is what lies around them.
    """
    space = namespace(weights)
    low, high = low - SMALL * (high - low < SMALL), high + SMALL * (high - low < SMALL)
    upto = space.cumulative_sum(weights, axis=0)
    zero = space.zeros_like(upto)
    inside = space.minimum(upto, zero + high) - space.maximum(upto - weights, zero + low)
    return space.maximum(inside, zero)


def ranks(values: Array, weights: Array) -> tuple[Array, Array]:
    """Of each value the weight of all that are smaller, and of all up to it, along the first axis.

    Few are counted, each against all: compilers sort columns many times slower than that. Of many that are
    sorted, equal ones come one after another.
    """
    space = namespace(values)
    shares = weights.reshape(-1, *[1] * (values.ndim - 1)) / weights.sum()
    if len(values) <= FEW:
        none = space.zeros_like(values)
        below = [space.where(values < each, shares, none).sum(0) for each in values]
        upto = [space.where(values <= each, shares, none).sum(0) for each in values]
        return space.stack(below), space.stack(upto)
    order = space.argsort(values, axis=0, stable=True)
    sums = space.cumulative_sum(space.take(weights, order), axis=0) / weights.sum()
    upto = space.take_along_axis(sums, space.argsort(order, axis=0, stable=True), axis=0)
    return upto - shares, upto


def middle(values: Array, weights: Array) -> Array:
    """The weighted median along the first axis; of two middles the mean.

    m = (inf {v: W(v) >= 1/2} + inf {v: W(v) > 1/2}) / 2,   W(v) the weight of all values up to v

    Args:
        values: One row a client.
        weights: Of the clients.

    Returns:
        One row.
    """
    low, high = (namespace(values).min(some, axis=0) for some in _upper(values, weights))
    return (low + high) / 2


def middles(values: Array, weights: Array) -> Array:
    """How much of each row [n] is in their median, on average over its coordinates."""
    space = namespace(values)
    rows = space.arange(len(values))[:, None]
    low, high = (
        space.astype(rows == space.argmin(some, axis=0), weights.dtype) for some in _upper(values, weights)
    )
    return ((low + high) / 2).mean(1)


def _upper(values: Array, weights: Array) -> tuple[Array, Array]:
    """Values from the lower and from the upper middle on; those below them, and of no weight, infinite."""
    space = namespace(values)
    _, upto = ranks(values, weights)
    there = (weights > 0).reshape(-1, *[1] * (values.ndim - 1))
    far = space.zeros_like(values) + float("inf")
    return (
        space.where((upto >= 0.5 - SMALL) & there, values, far),
        space.where((upto > 0.5 + SMALL) & there, values, far),
    )


def between(values: Array, weights: Array, low: Array, high: Array) -> Array:
    """How much of each value lies between two ranks, as shares of what does, along the first axis.

    Between two equal ranks (the middle of all) it is what lies around them.
    """
    space = namespace(values)
    low, high = low - SMALL * (high - low < SMALL), high + SMALL * (high - low < SMALL)
    below, upto = ranks(values, weights)
    zero = space.zeros_like(upto)
    inside = space.maximum(space.minimum(upto, zero + high) - space.maximum(below, zero + low), zero)
    shares = weights.reshape(-1, *[1] * (values.ndim - 1)) / weights.sum()
    kept = inside * shares / space.where(upto > below, upto - below, zero + 1)  # equals share alike
    return kept / kept.sum(0)


def distances_sq(rows: Array) -> Array:
    """Squared distances [n, n] by products: cohorts times cohorts times d numbers would not fit."""
    space = namespace(rows)
    square, product = (rows * rows).sum(1), rows @ rows.T
    found = square[:, None] + square[None, :] - (product + product.T)
    return space.maximum(found, space.zeros_like(found)) * (1 - space.eye(len(rows), dtype=rows.dtype))


def nearest(distances: Array, weights: Array, share: Array) -> Array:
    """Of every row [n, n] the weights of its nearest others and itself that make up `share`; sums to it."""
    space = namespace(distances)
    far = space.where(weights[None, :] > 0, distances, space.zeros_like(distances) + float("inf"))
    order = space.argsort(far, axis=1, stable=True)
    taken = cut(space.take(weights, order).T, 0.0, share).T
    return space.take_along_axis(taken, space.argsort(order, axis=1, stable=True), axis=1)


def lengths(rows: Array) -> Array:
    return (rows * rows).sum(1) ** 0.5
