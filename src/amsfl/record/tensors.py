"""Arrays as a safetensors file, piece by piece: a checkpoint need not be in memory twice."""

import json
import mmap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

PIECE = 4 << 20  # bytes
NAMES = {"f2": "F16", "f4": "F32", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64"}
NAMES |= {"u1": "U8", "u2": "U16", "u4": "U32", "u8": "U64", "b1": "BOOL"}


def tensor_bytes(arrays: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    """What safetensors.numpy.save returns, in pieces: the header's length, the header, the arrays.

    Args:
        arrays: By name; those with the widest numbers come first in the file, so that each is aligned.

    Returns:
        The file's bytes; a small file is one piece.
    """
    pieces = _pieces(arrays)
    small = sum(array.nbytes for array in arrays.values()) <= PIECE
    return iter([b"".join(pieces)]) if small else pieces


def _pieces(arrays: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    header, place = dict[str, Any](), 0
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    for name, array in ordered:
        offsets = [place, place := place + array.nbytes]
        kind = NAMES[array.dtype.str[1:]]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, array in ordered:
        little = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        data = little.reshape(-1).view(np.uint8).data
        for begin in range(0, len(data), PIECE):
            yield data[begin : begin + PIECE]
            release(array)


def release(array: Any) -> None:
    """Let go of the memory that reading an array's file has taken, where it is mapped from a file."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.obj if isinstance(base, memoryview) else base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
