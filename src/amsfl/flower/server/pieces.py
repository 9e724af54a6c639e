"""A method's arithmetic on a large model: its vectors are in files, and a piece of each is in memory.

AMSFL's server state is six vectors of the model's length (methods/server_step.py). A method that works
number by number (`Arithmetic.pieces`) is given a piece of each vector at a time. Other methods, and models of
one piece, are worked on whole.
"""

from collections.abc import Callable, Iterable

import numpy as np

from amsfl import protocol
from amsfl.core import Total, Upload
from amsfl.flower import vector_files
from amsfl.flower.vector_files import Vector, VectorFile, square
from amsfl.methods import Arithmetic, Method
from amsfl.methods.arithmetic import no_state
from amsfl.protocol.server import CohortWork, CombinedWork
from amsfl.record.tensors import release

Step = Callable[[Vector, Vector, slice], tuple[Vector, Vector]]  # anchor, server, which piece -> both
Cut = Callable[[slice], Iterable[Upload]]  # a piece of every upload


def first_state(method: Method, anchor: Vector) -> Vector:
    """What the method's server begins with."""
    init = method.arithmetic.init
    return by_pieces(method, anchor, anchor[:0], lambda x, _, piece: (x, init(x)[0]))[1]


def combine(method: Method, server: Vector, cohort: CohortWork, size: int, cut: Cut) -> CombinedWork:
    """`protocol.combine_work`; `cut` are the cohort's uploads, for those who add them up piece by piece."""
    compared = protocol.compares_uploads(method) or method.facts.stale == "model"
    if size <= vector_files.MOST or compared or piece_vectors(method.arithmetic) is None:
        return protocol.combine_work(method, server, cohort._replace(uploads=cut(slice(0, size))))
    delta, extra = VectorFile(size), VectorFile(size) if method.arithmetic.second is not None else None
    for piece in vector_files.pieces(size):
        done = protocol.combine_work(method, server, cohort._replace(uploads=cut(piece)))
        delta.put(piece.start, done.total.delta)
        if extra is not None:
            extra.put(piece.start, done.total.extra)
    both = delta.vector(), done.total.extra if extra is None else extra.vector()
    return done._replace(total=done.total._replace(delta=both[0], extra=both[1]))


def aggregate(
    method: Method, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
) -> tuple[Vector, Vector]:
    """`Arithmetic.aggregate`."""
    rule = method.arithmetic.aggregate
    whole = square(total.delta) if anchor.size > vector_files.MOST else None

    def one(x: Vector, state: Vector, piece: slice) -> tuple[Vector, Vector]:
        if len(x) == len(anchor):
            return rule(x, total, weights, steps, state)
        part = total._replace(delta=total.delta[piece], extra=total.extra[piece], square=whole)
        moved = rule(x, part, weights, steps, state)
        release(total.delta)
        release(total.extra)
        return moved

    return by_pieces(method, anchor, server, one)


def revise(method: Method, anchor: Vector, server: Vector, verdict: int) -> tuple[Vector, Vector]:
    """`Arithmetic.revise`, of a method that has it."""
    rule = method.arithmetic.revise
    assert rule is not None
    return by_pieces(method, anchor, server, lambda x, state, piece: rule(x, state, verdict))


def piece_vectors(arithmetic: Arithmetic) -> int | None:
    """Vectors that the server state begins with, single numbers behind them; None: not piece by piece."""
    aggregate, vectors = arithmetic.pieces
    stateless = arithmetic.init is no_state
    return vectors if aggregate is arithmetic.aggregate and (vectors or stateless) else None


def by_pieces(method: Method, anchor: Vector, server: Vector, step: Step) -> tuple[Vector, Vector]:
    size, vectors = anchor.size, piece_vectors(method.arithmetic)
    if size <= vector_files.MOST or vectors is None:
        moved, fresh = step(anchor, server, slice(0, size))
        return tuple(vector_files.kept(np.asarray(part, np.float32)) for part in (moved, fresh))  # type: ignore[return-value]
    places, tail = range(vectors), server[vectors * size :]
    anchors, states = VectorFile(size), None
    for piece in vector_files.pieces(size):
        old = [server[place * size :][piece] for place in places] if server.size else []
        moved, fresh = step(anchor[piece], np.concatenate([*old, tail]), piece)
        anchors.put(piece.start, moved)
        length = piece.stop - piece.start
        numbers = fresh[vectors * length :]  # single ones: the same from every piece
        states = states or VectorFile(vectors * size + numbers.size)
        for place in places:
            states.put(place * size + piece.start, fresh[place * length : (place + 1) * length])
        for vector in (anchor, server):
            release(vector)
    assert states is not None
    states.put(vectors * size, numbers)
    return anchors.vector(), states.vector()
