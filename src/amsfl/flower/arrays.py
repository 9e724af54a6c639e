"""Arrays as they travel: numpy's own format and no pickle, in an ArrayRecord or as bytes in a ConfigRecord.

Flower sends every record in a request of its own and every array of an ArrayRecord in two, and those add up:
arrays that weigh little together travel within their record. Sizes are bounded before anything is parsed.
A vector that is in a file (vector_files.py) is sent from there, and never in memory as a whole.
"""

from collections.abc import Mapping
from io import BytesIO
from math import isfinite, prod
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from amsfl.core import UserError
from amsfl.flower.vector_files import Vector, file_of

Buffers = dict[str, Vector]
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
NOTHING = np.zeros(0, np.float32)
SMALL = 1 << 20  # bytes: arrays that weigh less together travel within their record
LONGEST_HEADER = 12_000  # bytes of numpy's format before the numbers
Record = ArrayRecord | ConfigRecord | MetricRecord
ARRAY_RECORDS = ("upload", "model", "buffers")  # whose values may be arrays' bytes
MOST_RECORDS, MOST_SCALARS, MOST_ARRAYS = 16, 1_000, 100_000  # of a message; entries of a record
LONGEST_NAME, LONGEST_TEXT = 300, 2_000  # characters
NUMBERS = "fiub"  # kinds of dtype that travel: floats, integers, truth


def pack_nonempty(parts: Mapping[str, Any]) -> ArrayRecord | ConfigRecord:
    """Those arrays that hold something."""
    return pack_arrays({name: part for name, part in parts.items() if np.size(part)})


def pack_arrays(parts: Mapping[str, Any]) -> ArrayRecord | ConfigRecord:
    # not ascontiguousarray, which turns a scalar buffer into a vector of one
    plain = {name: np.asarray(part, order="C") for name, part in parts.items()}
    if sum(part.nbytes for part in plain.values()) < SMALL:
        return ConfigRecord({name: Array(part).data for name, part in plain.items()})
    record = ArrayRecord()
    for name, part in plain.items():
        record[name] = _array(part)  # not ArrayRecord(dict), which takes bytes alone
    return record


def _array(part: Vector) -> Array:
    """Of a vector in a file: Flower sends slices of what `data` is, and the file is what it would be."""
    file: Any = file_of(part)
    if file is None:
        return Array(part)
    sent = Array(str(part.dtype), part.shape, "numpy.ndarray", b"")
    sent.data = file
    return sent


def arrays(content: RecordDict, name: str) -> Buffers:
    """Arrays by name, whichever way they came."""
    record: Any = content.get(name, ArrayRecord())
    if isinstance(record, ArrayRecord):
        kinds = {part.stype for part in record.values()} - {"numpy.ndarray"}
        if kinds:
            raise ValueError(f"an array of kind {min(kinds)!r}")
        return {str(key): numbers(part.data) for key, part in record.items()}
    inside: dict[str, Any] = dict(record.items()) if isinstance(record, ConfigRecord) else {"": None}
    if all(isinstance(part, bytes) for part in inside.values()):
        return {str(key): numbers(part) for key, part in inside.items()}
    raise TypeError(f"{name} is a {type(record).__name__}, and holds no arrays")


def numbers(data: bytes) -> Vector:
    """An array in numpy's own format and in no other; its size is held against the bytes that came.

    np.load opens zip archives and takes the memory that a header claims, before it looks for the bytes. The
    array is those bytes themselves and cannot be written to: a large one would be there twice.
    """
    file = BytesIO(memoryview(data)[:LONGEST_HEADER])
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
    return flat.reshape(shape, order="F" if fortran else "C")


def scalars(content: RecordDict, name: str) -> dict[str, Any]:
    """A ConfigRecord or MetricRecord as a plain dict."""
    record = content[name]
    if isinstance(record, ArrayRecord):
        raise TypeError(f"{name} is an ArrayRecord, not numbers")
    return dict(record.items())


def typed(kinds: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a server's message, each of its kind to the letter; a UserError where one is not.

    A 5 in place of "5", or half a step, would be taken for something else further on.
    """
    return {name: _typed(name, kinds.get(name), value) for name, value in fields.items()}


def _typed(name: str, kind: Any, value: Any) -> Any:
    if kind is float and type(value) is not bool and isinstance(value, int | float) and isfinite(value):
        return float(value)
    if kind in (bool, int, str) and type(value) is kind and (kind is not str or len(value) <= LONGEST_NAME):
        return value
    what = {float: "a finite number", int: "a whole number", str: "a short text", bool: "true or false"}
    good = what.get(kind, "left out")
    raise UserError(f"The server's {name[:60]!r} should be {good}, and is {str(value)[:60]!r}.")


def records(**parts: Record) -> RecordDict:
    """Those that hold something."""
    return RecordDict({name: part for name, part in parts.items() if len(part)})


def check_sizes(content: RecordDict) -> None:
    """A ValueError where there is more than any message holds, before it is parsed or formatted."""
    if len(content) > MOST_RECORDS:
        raise ValueError(f"{len(content)} records")
    for name, record in content.items():
        most = MOST_ARRAYS if isinstance(record, ArrayRecord) or name in ARRAY_RECORDS else MOST_SCALARS
        if len(name) > LONGEST_NAME or len(record) > most or any(len(key) > LONGEST_NAME for key in record):
            raise ValueError(f"the record {name[:LONGEST_NAME]!r} has {len(record)} entries, or long names")
        if isinstance(record, ConfigRecord) and name not in ARRAY_RECORDS:
            for value in record.values():
                _check_value(name, value)


def _check_value(name: str, value: Any) -> None:
    items = value if isinstance(value, list) else [value]
    if len(items) > (MOST_ARRAYS if name == "tensors" else 1):
        raise ValueError(f"the record {name!r} holds a list of {len(items)}")
    if any(isinstance(item, str | bytes) and len(item) > LONGEST_TEXT for item in items):
        raise ValueError(f"the record {name!r} holds a text of more than {LONGEST_TEXT} characters")
