"""More than a hundred kinds of false replies, each a function that changes a reply's records in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from amsfl.core import Reading
from amsfl.flower import messages

Change = Callable[[RecordDict], None]

NUMBERS = {
    "nan": float("nan"),
    "inf": float("inf"),
    "minus inf": -float("inf"),
    "1e300": 1e300,
    "minus 1e300": -1e300,
    "1e38": 1e38,
    "minus one": -1.0,
    "zero": 0.0,
    "2**62": 2**62,
}
VALUES = {"nan": np.nan, "inf": np.inf, "3e38": 3e38, "1e30": 1e30, "1e6": 1e6}
TYPES = ("f8", "f2", "i4", "i8", "u1", "?")
TEXTS = {
    "empty": "",
    "long": "x" * 200_000,
    "unprintable": "\x1b[2J\n",
    "a list": ["a"] * 5000,
    "bytes": b"\x00" * 100_000,
    "a number": 7,
}


def in_report(field: str, value: Any) -> Change:
    def change(content: RecordDict) -> None:
        content["report"][field] = value  # type: ignore[index]

    return change


def in_echo(field: str, value: Any) -> Change:
    def change(content: RecordDict) -> None:
        content["echo"][field] = value  # type: ignore[index]

    return change


def delta(change: Callable[[Any], Any]) -> Change:
    def changed(content: RecordDict) -> None:
        parts = messages.arrays(content, "upload")
        content["upload"] = messages.pack_arrays(parts | {"delta": change(parts["delta"])})

    return changed


def raw_delta(data: Callable[[bytes], bytes]) -> Change:
    """The bytes of the array themselves."""

    def changed(content: RecordDict) -> None:
        whole = Array(messages.arrays(content, "upload")["delta"]).data
        content["upload"] = ConfigRecord({"delta": data(whole)})

    return changed


def record(name: str, value: Any) -> Change:
    def change(content: RecordDict) -> None:
        content[name] = value

    return change


def without(name: str) -> Change:
    def change(content: RecordDict) -> None:
        del content[name]

    return change


def many_records(content: RecordDict) -> None:
    for number in range(40):
        content[f"more{number}"] = MetricRecord({"a": 1.0})


def kinds() -> dict[str, Change]:
    every: dict[str, Change] = {}
    for field in (*Reading._fields, "step_seconds", "compute_seconds", "plain_steps"):
        some = ("nan", "inf", "1e300", "minus one") if field != "loss" else NUMBERS
        every |= {f"{field} is {name}": in_report(field, NUMBERS[name]) for name in some}
    for field in ("steps", "rows", "skipped", "lost_state", "taken", "held_rows"):
        every |= {f"{field} is {value}": in_report(field, value) for value in (-1, 2**62)}
    for field in ("run", "round", "client"):
        every |= {f"{field} is {name}": in_echo(field, value) for name, value in TEXTS.items()}
    for name, value in VALUES.items():
        every[f"delta holds {name}"] = delta(lambda part, value=value: part + np.float32(value))
        every[f"one number of delta is {name}"] = delta(
            lambda part, value=value: np.r_[np.float32(value), part[1:]]
        )
    for kind in TYPES:
        every[f"delta is of type {kind}"] = delta(lambda part, kind=kind: part.astype(kind))
    every |= {
        "delta is longer": delta(lambda part: np.r_[part, part]),
        "delta is shorter": delta(lambda part: part[1:]),
        "delta is empty": delta(lambda part: part[:0]),
        "delta is a matrix": delta(lambda part: part[None]),
        "delta is a scalar": delta(lambda part: part.sum()),
        "delta is backwards": delta(lambda part: -1000 * part),
        "delta is big endian": delta(lambda part: part.astype(">f4")),
        "no upload": without("upload"),
        "no report": without("report"),
        "no echo": without("echo"),
        "a second vector": record("upload", ConfigRecord({"delta": b"", "extra": b"1", "more": b"2"})),
        "upload is numbers": record("upload", MetricRecord({"delta": 1.0})),
        "upload is text": record("upload", ConfigRecord({"delta": "text"})),
        "report is text": record("report", ConfigRecord({"loss": "text"})),
        "report is arrays": record("report", ArrayRecord({"loss": Array(np.zeros(3))})),
        "report is huge": record("report", MetricRecord({f"n{number}": 1.0 for number in range(5000)})),
        "many records": many_records,
        "a text of eight megabytes": record("note", ConfigRecord({"text": "é" * 8_000_000})),
        "a name of a megabyte": record("metrics", MetricRecord({"n" * 1_000_000: 1.0})),
        "a list of a million": record("note", ConfigRecord({"list": [0.5] * 1_000_000})),
        "metrics that are not finite": record("metrics", MetricRecord({"a": float("nan"), "b": 1e308})),
        "buffers that nobody asked for": record("buffers", ConfigRecord({"running": Array(np.ones(3)).data})),
        "a zip for an array": raw_delta(lambda data: b"PK\x03\x04" + data),
        "a cut array": raw_delta(lambda data: data[: len(data) // 2]),
        "an array without a header": raw_delta(lambda data: data[80:]),
        "a header that claims terabytes": raw_delta(lambda data: data.replace(b"(", b"(9999999999, ", 1)),
        "a header of another version": raw_delta(lambda data: data[:6] + b"\x03\x00" + data[8:]),
        "a header of objects": raw_delta(lambda data: data.replace(b"<f4", b"|O ", 1)),
        "garbage": raw_delta(lambda data: bytes(range(256)) * 4),
    }
    return every
