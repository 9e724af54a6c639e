"""JSON that notices when it was changed: a file, or each line of one, ends in a checksum of all before it."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from pydantic import TypeAdapter, ValidationError

from amsfl.core import DiskError
from amsfl.core.records import Array, Json
from amsfl.record import disk

T = TypeVar("T")
SUM = b'"crc": "'


class Damaged(Exception):
    """Not what was written; says in a few words what is wrong with it."""


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON that every reader takes: it has no NaN and no infinity, so those become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def checksum(value: Any) -> int:
    """A number that stands for plain data, whatever the order of its keys."""
    return crc32(json.dumps(value, sort_keys=True).encode())


def checksum_arrays(*arrays: Array) -> str:
    """A checksum of numbers, their shape and their type."""
    crc = 0
    for array in arrays:
        crc = crc32(f"{array.dtype.str}{array.shape}".encode(), crc)
        crc = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return f"{crc:08x}"


def seal(value: Json, indent: int | None = None) -> bytes:
    """A line of JSON, or with `indent` a file of one field a line."""
    body = dumps(value, indent)[:-1].rstrip("\n").encode() + (b", " if value else b"")
    return body + SUM + b'%08x"}\n' % crc32(body)


def unseal(text: bytes) -> Json:
    """What `seal` was given."""
    body, _, end = text.rpartition(SUM)
    if end.rstrip(b"\n") != b'%08x"}' % crc32(body):
        raise Damaged("its checksum does not fit")
    return loads(body.rstrip().removesuffix(b",") + b"}")


def loads(text: bytes) -> Json:
    """JSON as it stands: an object, or it is damaged."""
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise Damaged(f"it is not valid JSON: {why}") from None
    if not isinstance(value, dict):
        raise Damaged("it is JSON, but no object")
    return value


class Lines(NamedTuple):
    rows: list[Json]
    end: int  # bytes up to here
    bad: str = ""  # what is wrong with the line after these


def unseal_lines(text: bytes, at_most: int | None = None) -> Lines:
    """The lines of a file up to a damaged one. A last one that was left half-written is passed over."""
    rows: list[Json] = []
    begin = 0
    while (at_most is None or len(rows) < at_most) and (end := text.find(b"\n", begin)) >= 0:
        try:
            rows.append(unseal(text[begin:end]))
        except Damaged as bad:
            return Lines(rows, begin, f"line {len(rows) + 1}: {bad}")
        begin = end + 1
    return Lines(rows, begin)


def plain(value: Any) -> Any:
    """A NamedTuple of numbers, texts, lists and others like it as JSON can hold it."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def from_plain(kind: type[T], data: Any) -> T:
    """The record that `plain` was given; raises Damaged where the data do not fit its fields."""
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or kind.__name__
        raise Damaged(f"{where} is {str(first['input'])[:40]!r}: {first['msg']}") from None


def damaged(path: Path, why: object, then: str) -> DiskError:
    return DiskError(f"{str(path)!r} is damaged ({why}): {then}")


def read_sealed(path: Path, then: str) -> Json:
    """A file that `write_sealed` wrote; `then` is the way out if it is not as it was written."""
    content = disk.read(path)
    try:
        return unseal(content)
    except Damaged as bad:
        raise damaged(path, bad, then) from None


def write_sealed(path: Path, value: Json, private: bool = False) -> None:
    """JSON that notices when it was changed, whole or not at all; a `private` file only its owner reads."""
    disk.write_atomically(path, seal(value, 1), 0o600 if private else 0o666)
