"""Quantiles, ranks and neighbours of clients that weigh unequally: one of weight 2 is two equal clients."""

from collections.abc import Callable

from amsfl.core import UserError, namespace
from amsfl.core.records import Array

SMALL = 1e-6  # weights are rounded: two that differ by less are equal


def doubted(rule: str, attackers: float) -> Callable[[Array], Array]:
    """From weights the share that may be false: the heaviest `attackers` clients', or `attackers` if below 1.

    Half is the most that any rule can stand. Where so few clients hold more, or so many are doubted of the
    few that came, it is taken for half: a real client that stays away must not end a run.
    """
    if not attackers >= 0 or (attackers % 1 if attackers >= 1 else attackers > 0.5):
        raise UserError(
            f"The rule '{rule}:{attackers:g}': give it a whole number of clients, as in {rule}:2, "
            f"or a share of the weight up to a half, as in {rule}:0.2."
        )

    def share(weights: Array) -> Array:
        if attackers < 1:
            return attackers
        space = namespace(weights)
        heaviest = space.sort(weights)[max(0, len(weights) - int(attackers)) :].sum()
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


def between(values: Array, weights: Array, low: Array, high: Array) -> Array:
    """Shares of the values between two ranks, along the first axis; they sum to 1."""
    space = namespace(values)
    order = space.argsort(values, axis=0, stable=True)
    kept = cut(space.take(weights / weights.sum(), order), low, high)
    kept = space.take_along_axis(kept, space.argsort(order, axis=0, stable=True), axis=0)
    return kept / kept.sum(0)


def around_middle(values: Array, weights: Array) -> Array:
    """1 for the value in the middle of the weights, along the first axis; of two middles a half each."""
    here = between(values, weights, 0.5, 0.5) > 0
    kept = namespace(values).astype(here, values.dtype)
    return kept / kept.sum(0)


def middle(values: Array, weights: Array) -> Array:
    """The weighted median along the first axis; of two middles the mean.

    Args:
        values: One row a client.
        weights: Of the clients.

    Returns:
        One row.
    """
    share = around_middle(values, weights)
    space = namespace(values)
    return space.where(share > 0, share * values, space.zeros_like(values)).sum(0)


def neighbour_distances(rows: Array, weights: Array, share: Array) -> Array:
    """Of every row the squared distances to the nearest others of such a share of the weight, by weight."""
    space = namespace(rows)
    square, product = (rows * rows).sum(1), rows @ rows.T  # n n d numbers would not fit
    apart = space.maximum(square[:, None] + square[None, :] - (product + product.T), 0 * product)
    apart = apart * (1 - space.eye(len(rows), dtype=rows.dtype))
    far = space.where(weights[None, :] > 0, apart, space.zeros_like(apart) + float("inf"))
    order = space.argsort(far, axis=1, stable=True)
    near = cut(space.take(weights, order).T, 0.0, share).T
    return (near * space.take_along_axis(apart, order, axis=1)).sum(1)


def lengths(rows: Array) -> Array:
    return (rows * rows).sum(1) ** 0.5


def beside(numbers: Array, part: Array) -> Array:
    """One number a row, in a shape that multiplies the part's rows."""
    return numbers.reshape(-1, *[1] * (part.ndim - 1))
