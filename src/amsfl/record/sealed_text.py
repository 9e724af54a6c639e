"""Texts that notice when they were changed: strict JSON and TOML that end in a checksum of all before it.

A checksum begins from a number: the record's own identity, and in a file of lines the line before. So a file
of another record, and a line that is missing, doubled or out of its place, are noticed like a flipped bit.
"""

import json
import math
import tomllib
from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32

import tomli_w

from amsfl.core.records import Json

LINE = ', "crc": "%s"}'
LINES = ',\n "crc": "%s"\n}\n'
TOML = "# crc %s of all above: amsfl goes by what it wrote; for other settings start a new run\n"


class Damaged(Exception):
    """Not what was written; says in a few words what is wrong with it."""


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON that every reader takes: it has no NaN and no infinity, so those become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_spelled(value, lambda number: None), indent=indent, allow_nan=False)


def _spelled(value: Any, spell: Callable[[float], Json | None]) -> Any:
    """Plain data, each of its numbers that is not finite as `spell` says."""
    if isinstance(value, dict):
        return {key: _spelled(inner, spell) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(inner, spell) for inner in value]
    return spell(value) if isinstance(value, float) and not math.isfinite(value) else value


def checksum(value: Any) -> int:
    """A number that stands for plain data, whatever the order of its keys."""
    return crc32(json.dumps(value, sort_keys=True).encode())


def _close(body: str, start: int, form: str) -> str:
    return body + form % f"{crc32(body.encode(), start):08x}"


def _open(text: bytes, start: int, form: str) -> bytes:
    """The body, if the end of the text is what the body's checksum says, to the letter."""
    end = len(form % "00000000")
    body = text[:-end]
    if text[-end:] != (form % f"{crc32(body, start):08x}").encode():
        raise Damaged("its checksum does not fit")
    return body


def seal(value: Json, start: int = 0) -> bytes:
    """A whole file of JSON, one field a line."""
    return _close(dumps(value, indent=1).removesuffix("\n}"), start, LINES).encode()


def unseal(text: bytes, start: int = 0) -> Json:
    return loads(_open(text, start, LINES) + b"}")


def seal_toml(value: Json, start: int) -> bytes:
    return _close(tomli_w.dumps(value), start, TOML).encode()


def unseal_toml(text: bytes, start: int) -> Json:
    return toml(_open(text, start, TOML))


def toml(text: bytes) -> Json:
    """TOML as it stands, sealed or not."""
    try:
        return tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not valid TOML: {_short(error)}") from None


def seal_line(value: Json, before: int) -> tuple[bytes, int]:
    """One line of JSON with its newline, and the number that the next line begins from."""
    body = dumps(value).removesuffix("}")
    crc = crc32(body.encode(), before)
    return f"{body}{LINE % f'{crc:08x}'}\n".encode(), crc


class Lines(NamedTuple):
    rows: list[Json]
    crc: int  # what the next line begins from
    end: int  # bytes up to here
    bad: str = ""  # what is wrong with the line after these


def unseal_lines(text: bytes, start: int, at_most: int | None = None, known: int = 0) -> Lines:
    """The lines of a file up to a damaged one. A last one that was left half-written is passed over.

    `known` lines came before these.
    """
    rows: list[Json] = []
    begin = 0
    while (at_most is None or len(rows) < at_most) and (end := text.find(b"\n", begin)) >= 0:
        try:
            body = _open(text[begin:end], start, LINE)
            rows.append(loads(body + b"}"))
        except Damaged as bad:
            why = f"line {known + len(rows) + 1} was changed, lost, doubled or moved from its place: {bad}"
            return Lines(rows, start, begin, why)
        start, begin = crc32(body, start), end + 1
    return Lines(rows, start, begin)


def loads(text: bytes) -> Json:
    """JSON as it stands, sealed or not: an object, or it is damaged."""
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not valid JSON: {_short(error)}") from None
    if not isinstance(value, dict):
        raise Damaged("it is JSON, but no object")
    return value


def _short(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)[:200]


def encode_floats(value: Any) -> Any:
    """Plain data as JSON keeps it to the bit: what is not finite is spelled out, `{"float": "inf"}`."""
    return _spelled(value, lambda number: {"float": repr(float(number))})


def decode_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [decode_floats(inner) for inner in value]
    if isinstance(value, dict):
        if value.keys() == {"float"}:
            return float(value["float"])
        return {key: decode_floats(inner) for key, inner in value.items()}
    return value
