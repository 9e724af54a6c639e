"""What a record was made from: a record means nothing without the same, and says what is not."""

from typing import Any
from zlib import crc32

import numpy as np

from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.record.folder import changed_values
from amsfl.record.schema import Array, Manifest
from amsfl.record.sums import dumps


def checksum_arrays(*arrays: Array) -> str:
    """A checksum of numbers, their shape and their type."""
    crc = 0
    for array in arrays:
        crc = crc32(f"{array.dtype.str}{array.shape}".encode(), crc)
        crc = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return f"{crc:08x}"


def check_same(manifest: Manifest, made_from: Json, machine: Json, anyway: bool) -> None:
    """Raise if a resumed run would not find what it began with."""
    for what, (was, now) in changed_values(manifest.made_from, made_from).items():
        if dumps(was) != dumps(now):
            then = "give it the same data, model and costs as before, or start a new run."
            raise UserError(f"{_change(what, was, now)}; {then}")
    for what, (was, now) in changed_values(manifest.machine, machine).items():
        if not anyway:
            then = "Go on where it began, or pass --anyway, which goes on record."
            raise UserError(f"{_change(what, was, now)}: it would not end with the same bits. {then}")


def _change(what: str, *values: Any) -> str:
    was, now = (text if len(text) <= 80 else text[:77] + "..." for text in map(repr, values))
    return f"The run began with {what} {was} and would continue with {now}"
