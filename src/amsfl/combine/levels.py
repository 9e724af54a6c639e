"""Weighted quantiles of columns: of every coordinate, over a cohort's uploads."""

from collections.abc import Sequence

from amsfl.core import namespace, repeat
from amsfl.core.records import Array

FEW = 16  # rows that are counted, not bisected
ROWS = 64  # that are added up one by one
WIDTH = 256  # columns of a piece


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
