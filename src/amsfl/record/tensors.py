"""Arrays as a safetensors file, piece by piece: a checkpoint need not be in memory twice."""

import json
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

PIECE = 4 << 20  # bytes
NAMES = {"f2": "F16", "f4": "F32", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64"}
NAMES |= {"u1": "U8", "u2": "U16", "u4": "U32", "u8": "U64", "b1": "BOOL"}


class TensorFile:
    """What safetensors.numpy.save returns, in pieces, as often as it is read; a small file is one piece."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays

    def __iter__(self) -> Iterator[bytes | memoryview]:
        small = sum(array.nbytes for array in self.arrays.values()) <= PIECE
        return iter([b"".join(self._pieces())]) if small else self._pieces()

    def _pieces(self) -> Iterator[bytes | memoryview]:
        """The header's length, the header, the arrays; those of the widest numbers first: all are aligned."""
        header, place = dict[str, Any](), 0
        ordered = sorted(self.arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
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


def mapped_tensors(path: Path) -> dict[str, Any]:
    """The arrays of a file that `TensorFile` wrote, mapped from it: they cannot be written to."""
    with path.open("rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    begin = 8 + int.from_bytes(whole[:8], "little")
    kinds = {name: np.dtype("<" + kind) for kind, name in NAMES.items()}
    arrays = {}
    for name, about in json.loads(whole[8:begin]).items():
        place, end = about["data_offsets"]
        kind = kinds[about["dtype"]]
        flat = np.frombuffer(whole, kind, (end - place) // kind.itemsize, begin + place)
        arrays[name] = flat.reshape(about["shape"])
    return arrays


def mapping(array: Any) -> mmap.mmap | None:
    """What an array is mapped from, where it is a file."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.obj if isinstance(base, memoryview) else base.base
    return base if isinstance(base, mmap.mmap) else None


def release(array: Any) -> None:
    """Let go of the memory that reading an array's file has taken, where it is mapped from a file."""
    file = mapping(array)
    if file is not None and hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)
