"""Arrays as they travel: numpy's own format and no pickle, in an ArrayRecord or as bytes in a ConfigRecord.

Flower sends every record in a request of its own and every array of an ArrayRecord in two, and those add up:
arrays that weigh little together travel within their record.
"""

from collections.abc import Mapping
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

Vector = np.ndarray[Any, np.dtype[Any]]
Buffers = dict[str, Vector]
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
NOTHING = np.zeros(0, np.float32)
SMALL = 1 << 20  # bytes: arrays that weigh less together travel within their record
NUMBERS = "fiub"  # kinds of dtype that travel: floats, integers, truth


def pack_nonempty(parts: Mapping[str, Any]) -> ArrayRecord | ConfigRecord:
    """Those arrays that hold something."""
    return pack_arrays({name: part for name, part in parts.items() if np.size(part)})


def pack_arrays(parts: Mapping[str, Any]) -> ArrayRecord | ConfigRecord:
    # np.array and not ascontiguousarray, which turns a scalar buffer into a vector of one
    plain = {name: np.array(part, order="C") for name, part in parts.items()}
    if sum(part.nbytes for part in plain.values()) < SMALL:
        return ConfigRecord({name: Array(part).data for name, part in plain.items()})
    return ArrayRecord({name: Array(part) for name, part in plain.items()})


def arrays(content: RecordDict, name: str) -> Buffers:
    """Arrays by name, whichever way they came."""
    record: Any = content.get(name, ArrayRecord())
    if isinstance(record, ArrayRecord):
        return {str(key): numbers(_bytes(part)) for key, part in record.items()}
    inside: dict[str, Any] = dict(record.items()) if isinstance(record, ConfigRecord) else {"": None}
    if all(isinstance(part, bytes) for part in inside.values()):
        return {str(key): numbers(part) for key, part in inside.items()}
    raise TypeError(f"{name} is a {type(record).__name__}, and holds no arrays")


def _bytes(part: Array) -> bytes:
    if part.stype != "numpy.ndarray":
        raise ValueError(f"an array of kind {part.stype!r}")
    return part.data


def numbers(data: bytes) -> Vector:
    """An array in numpy's own format and in no other; its size is held against the bytes that came.

    np.load opens zip archives and takes the memory that a header claims, before it looks for the bytes.
    """
    file = BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"an array of version {version}")
    shape, fortran, dtype = HEADERS[version](file)
    if dtype.kind not in NUMBERS or dtype.subdtype is not None or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} {shape}")
    here = len(data) - file.tell()
    if prod(shape) * dtype.itemsize != here:
        raise ValueError(f"an array of {dtype} {shape} has {here} bytes")
    flat = np.frombuffer(data, dtype, prod(shape), file.tell())
    return np.array(flat.reshape(shape, order="F" if fortran else "C"))
