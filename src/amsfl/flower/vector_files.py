"""Large vectors in files instead of memory: a server then holds a few pieces of each.

A file has numpy's own format, so that a message can send it as it is. It has no name: it is gone when nobody
holds its vector, which is mapped from it and cannot be written to.
"""

import mmap
import tempfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.record.disk import explain_errors
from amsfl.record.tensors import mapping, release

Vector = np.ndarray[Any, np.dtype[Any]]
MOST = 1 << 20  # numbers of a vector that stays in memory
PIECE = 1 << 18  # numbers of a large one that are worked on at a time


def pieces(size: int) -> Iterator[slice]:
    return (slice(begin, min(begin + PIECE, size)) for begin in range(0, size, PIECE))


def parts(vector: Vector) -> Iterator[Vector]:
    """One after another, without those before in memory if they are on disk."""
    for begin in range(0, vector.size, MOST):
        yield vector[begin : begin + MOST]
        release(vector)


class VectorFile:
    """A vector of `size` numbers that is written piece by piece, then read."""

    def __init__(self, size: int) -> None:
        self.where, self.header = Path(tempfile.gettempdir()), header(size)
        with explain_errors("written to", self.where):
            self.file = tempfile.TemporaryFile(prefix="amsfl-vector-")  # noqa: SIM115  (it closes itself)
            self.file.write(self.header)

    def put(self, begin: int, part: Vector) -> None:
        with explain_errors("written to", self.where):
            self.file.seek(len(self.header) + 4 * begin)
            self.file.write(np.ascontiguousarray(part, np.float32).data)

    def vector(self) -> Vector:
        with explain_errors("written to", self.where):
            self.file.flush()
        whole = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(whole, np.float32, offset=len(self.header))


def header(size: int) -> bytes:
    """What numpy's format has before the numbers."""
    file = BytesIO()
    about = {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue()


def file_of(vector: Vector) -> mmap.mmap | None:
    """The file that holds this vector and nothing else, if one does."""
    whole = mapping(vector)
    if whole is None or vector.ndim != 1 or vector.dtype != np.float32:
        return None
    before = header(vector.size)
    return whole if len(whole) == len(before) + vector.nbytes and whole[: len(before)] == before else None


def each(work: Callable[..., Any], *vectors: Vector) -> Vector:
    """What `work` makes of vectors number by number; in a file if they are large."""
    size = vectors[0].size
    if size <= MOST or any(vector.dtype != np.float32 or vector.ndim != 1 for vector in vectors):
        return np.asarray(work(*vectors))
    file = VectorFile(size)
    for piece in pieces(size):
        file.put(piece.start, work(*(vector[piece] for vector in vectors)))
        for vector in vectors:
            release(vector)
    return file.vector()


def kept(vector: Vector) -> Vector:
    """A copy; in a file if it is large, or the file that it is in."""
    return vector if file_of(vector) is not None else each(np.array, vector)


def finite(vector: Vector) -> bool:
    return all(bool(np.isfinite(part).all()) for part in parts(vector))


def largest(vector: Vector) -> float:
    """Without its sign."""
    return max((float(np.abs(part).max()) for part in parts(vector)), default=0.0)


def square(vector: Vector) -> float:
    """||vector||^2 as a double. Not np.linalg.norm: BLAS wakes all its threads for a vector, which takes
    longer than the sum."""
    return float(sum(np.square(part, dtype=float).sum() for part in parts(vector)))
