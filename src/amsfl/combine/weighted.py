"""Quantiles, ranks and neighbours of clients that weigh unequally: one of weight 2 is two equal clients."""

from collections.abc import Callable, Sequence

from amsfl.core import UserError, namespace, repeat
from amsfl.core.records import Array

FEW = 16  # rows that are counted, not bisected
ROWS = 64  # that are added up one by one
WIDTH = 256  # columns of a piece
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


def middle(values: Array, weights: Array) -> Array:
    """The weighted median along the first axis; of two middles the mean.

    m = (inf {v: W(v) >= 1/2} + inf {v: W(v) > 1/2}) / 2,   W(v) the weight of all values up to v

    Args:
        values: One row a client.
        weights: Of the clients.

    Returns:
        One row.
    """
    low, high = middles(values, weights)
    return (low + high) / 2


def middles(values: Array, weights: Array) -> tuple[Array, Array]:
    """The lower and the upper middle: the same where one value is the middle."""
    space = namespace(values)
    (low,) = levels(values, weights, [0.5 - SMALL])
    shares = beside(weights / weights.sum(), values)
    upto = space.where(values <= low, shares, space.zeros_like(values)).sum(0)
    above = space.where((values > low) & (shares > 0), values, space.zeros_like(values) + float("inf"))
    return low, space.where(upto > 0.5 + SMALL, low, space.min(above, axis=0))


def owners(values: Array, weights: Array, picked: Array) -> Array:
    """How much of each row [n] is in a row of values found among them, on average over coordinates."""
    hits = namespace(values).astype(values == picked, weights.dtype)
    return weights * (hits @ (1 / (weights @ hits))) / len(picked)


def between(values: Array, weights: Array, low: Array, high: Array) -> Array:
    """How much of each value's weight lies between two ranks, along the first axis.

    Between two equal ranks (the middle of all) it is what lies around them.
    """
    space = namespace(values)
    near = 2 * SMALL * (high - low < SMALL)
    low, high = low - near, high + near
    shares, none = beside(weights / weights.sum(), values), space.zeros_like(values)

    def part(edge: Array) -> Array:
        """Of a value at the edge, what lies between: equals share alike."""
        below, upto = (space.where(some, shares, none).sum(0) for some in (values < edge, values <= edge))
        inside = space.minimum(upto, none[0] + high) - space.maximum(below, none[0] + low)
        return inside / (upto - below)

    bottom, top = levels(values, weights, [low + SMALL, high - SMALL])
    ends = space.where(values == bottom, part(bottom), space.where(values == top, part(top), none))
    return shares * space.where((values > bottom) & (values < top), none + 1, ends)


def distances_sq(rows: Array) -> Array:
    """Squared distances [n, n] by products: cohorts times cohorts times d numbers would not fit."""
    space = namespace(rows)
    square, product = (rows * rows).sum(1), rows @ rows.T
    squares = square[:, None] + square[None, :] - (product + product.T)
    return space.maximum(squares, space.zeros_like(squares)) * (1 - space.eye(len(rows), dtype=rows.dtype))


def nearest(distances: Array, weights: Array, share: Array) -> Array:
    """Of every row [n, n] the weights of its nearest others and itself that make up `share`; sums to it."""
    space = namespace(distances)
    far = space.where(weights[None, :] > 0, distances, space.zeros_like(distances) + float("inf"))
    order = space.argsort(far, axis=1, stable=True)
    taken = cut(space.take(weights, order).T, 0.0, share).T
    return space.take_along_axis(taken, space.argsort(order, axis=1, stable=True), axis=1)


def lengths(rows: Array) -> Array:
    return (rows * rows).sum(1) ** 0.5


def levels(values: Array, weights: Array, ranks: Sequence[Array]) -> list[Array]:
    """Of each rank the least value that reaches it with the weight of all up to it, along the first axis.

    inf {v: W(v) >= rank}

    Few are counted, each against all. Of many it is found bit by bit, as one bisects: columns of cohorts are
    sorted many times slower than that (docs/robust.md, "Pace").
    """
    space = namespace(values)
    shares = weights / weights.sum()
    if len(values) > FEW:
        return _bisected(values, shares, ranks)
    shares = beside(shares, values)
    none, far = space.zeros_like(values), space.zeros_like(values) + float("inf")
    upto = space.stack([space.where(values <= each, shares, none).sum(0) for each in values])
    return [space.min(space.where((upto >= rank) & (shares > 0), values, far), axis=0) for rank in ranks]


def _bisected(values: Array, shares: Array, ranks: Sequence[Array]) -> list[Array]:
    """Whole numbers in the order of the values: a bit of the answer is set where what lies below it is less
    than the rank. A rank that nothing reaches, and weights that are none, leave NaN."""
    space, shape = namespace(values), values.shape[1:]
    packed = _packed(values)
    last = 8 * packed.dtype.itemsize - 1
    rest = 2**last - 1
    kind = space.dtype(f"int{last + 1}")
    keys = packed.view(kind)
    keys = keys ^ ((keys >> last) & rest)
    start = space.zeros((len(keys), keys.shape[2]), dtype=kind) - rest - 1

    def value(rank: Array) -> Array:
        def bit(turn: Array, below: Array) -> Array:
            place = space.astype(space.asarray(last - turn), kind)
            tried = below + (space.ones_like(place) << place)
            return space.where(_below(keys, tried, shares) < rank, tried, below)

        bits = repeat(last + 1, bit, start)
        ordered = (bits ^ ((bits >> last) & rest)).view(values.dtype)
        return ordered.reshape(-1)[: values[0].size].reshape(shape)

    return [value(rank) for rank in ranks]


def _packed(values: Array) -> Array:
    """Columns in pieces [pieces, n, WIDTH]: of rows far apart one pushes the other out of a processor."""
    space, n = namespace(values), len(values)
    size = values[0].size
    pieces = -(-size // WIDTH)
    flat = values.reshape(n, size)
    flat = space.concat([flat, space.zeros((n, pieces * WIDTH - size), dtype=flat.dtype)], axis=1)
    return space.permute_dims(flat.reshape(n, pieces, WIDTH), (1, 0, 2))


def _below(keys: Array, edge: Array, shares: Array) -> Array:
    """The weight of what is below an edge [pieces, WIDTH]; row by row, which compilers fuse, unless many."""
    space = namespace(shares)
    none = space.zeros_like(shares)
    if len(shares) > ROWS:
        return space.where(keys < edge[:, None], shares[:, None], none[:, None]).sum(1)
    total = none[0]
    for row in range(len(shares)):
        total = total + space.where(keys[:, row] < edge, shares[row], none[row])
    return total


def beside(numbers: Array, part: Array) -> Array:
    """One number a row, in a shape that multiplies the part's rows."""
    return numbers.reshape(-1, *[1] * (part.ndim - 1))
