"""A large model at the server, piece by piece: what a method remembers of it is on disk, not in memory.

AMSFL's server state is five vectors of the model's length (methods/server_step.py). A method that works
number by number (`Arithmetic.pieces`) is given a piece of each vector at a time. What it makes of them is
written to a file without a name, which then is the state: an array that cannot be written to. Other methods,
and models of one piece, are worked on whole.
"""

import mmap
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from amsfl.core import Total
from amsfl.flower.arrays import IN_MEMORY, Vector
from amsfl.methods import Arithmetic, Method
from amsfl.record.disk import explain_errors
from amsfl.record.tensors import release

PIECE = IN_MEMORY // 4  # numbers
Step = Callable[[Vector, Vector, slice], tuple[Vector, Vector]]  # anchor, server, which piece -> both


def pieces(size: int) -> Iterator[slice]:
    return (slice(begin, min(begin + PIECE, size)) for begin in range(0, size, PIECE))


def parts(vector: Vector) -> Iterator[Vector]:
    """One after another, without those before in memory if they are on disk."""
    for piece in pieces(vector.size):
        yield vector[piece]
        release(vector)


class VectorFile:
    """A vector that is written piece by piece, then read."""

    def __init__(self) -> None:
        self.where = Path(tempfile.gettempdir())
        with explain_errors("written to", self.where):
            self.file = tempfile.TemporaryFile(prefix="amsfl-state-")  # noqa: SIM115  (it closes itself)

    def put(self, begin: int, part: Vector) -> None:
        with explain_errors("written to", self.where):
            self.file.seek(4 * begin)
            self.file.write(np.ascontiguousarray(part, np.float32).data)

    def vector(self) -> Vector:
        with explain_errors("written to", self.where):
            self.file.flush()
        return np.frombuffer(mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ), np.float32)


def kept(vector: Vector) -> Vector:
    """A copy; on disk if it is large."""
    if vector.size <= PIECE:
        return np.array(vector)
    file = VectorFile()
    for place, part in enumerate(parts(vector)):
        file.put(place * PIECE, part)
    return file.vector()


def finite(vector: Vector) -> bool:
    return all(bool(np.isfinite(part).all()) for part in parts(vector))


def square(vector: Vector) -> float:
    """||vector||^2 as a double. Not np.linalg.norm: BLAS wakes all its threads for a vector, which takes
    longer than the sum."""
    return float(sum(np.square(part, dtype=float).sum() for part in parts(vector)))


def first_state(method: Method, anchor: Vector) -> Vector:
    """What the method's server begins with."""
    init = method.arithmetic.init
    return by_pieces(method, anchor, anchor[:0], lambda x, _, piece: (x, init(x)[0]))[1]


def aggregate(
    method: Method, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
) -> tuple[Vector, Vector]:
    """`Arithmetic.aggregate`."""
    rule = method.arithmetic.aggregate
    whole = square(total.delta) if anchor.size > PIECE else None

    def one(x: Vector, state: Vector, piece: slice) -> tuple[Vector, Vector]:
        part = total._replace(delta=total.delta[piece], extra=total.extra[piece], square=whole)
        return rule(x, part if len(x) < len(anchor) else total, weights, steps, state)

    return by_pieces(method, anchor, server, one)


def revise(method: Method, anchor: Vector, server: Vector, verdict: int) -> tuple[Vector, Vector]:
    """`Arithmetic.revise`, of a method that has it."""
    rule = method.arithmetic.revise
    assert rule is not None
    return by_pieces(method, anchor, server, lambda x, state, piece: rule(x, state, verdict))


def piece_vectors(arithmetic: Arithmetic) -> int | None:
    """Vectors that the server state begins with, single numbers behind them; None: not piece by piece."""
    aggregate, vectors = arithmetic.pieces or (None, None)
    return vectors if aggregate is arithmetic.aggregate else None


def by_pieces(method: Method, anchor: Vector, server: Vector, step: Step) -> tuple[Vector, Vector]:
    size, vectors = anchor.size, piece_vectors(method.arithmetic)
    if vectors is None or size <= PIECE:
        moved, fresh = step(anchor, server, slice(0, size))
        return np.asarray(moved, np.float32), np.asarray(fresh, np.float32)
    moved, file, tail = np.empty_like(anchor), VectorFile(), server[vectors * size :]
    for piece in pieces(size):
        old = [server[place * size :][piece] for place in range(vectors)] if server.size else []
        moved[piece], fresh = step(anchor[piece], np.concatenate([*old, tail]), piece)
        length = piece.stop - piece.start
        for place in range(vectors):
            file.put(place * size + piece.start, fresh[place * length : (place + 1) * length])
        release(server)
    file.put(vectors * size, fresh[vectors * length :])  # single numbers: the same from every piece
    return moved, file.vector()
