"""ArrayRecords as numbers: changes between two of them, their form, and all as one flat vector."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

Part = np.ndarray[Any, np.dtype[Any]]
FlatVector = np.ndarray[Any, np.dtype[np.float32]]


def flat(arrays: ArrayRecord) -> FlatVector:
    """The float arrays, one after another."""
    every = [each.numpy() for each in arrays.values()]  # each is read from its bytes anew: a millisecond
    parts = [part.ravel() for part in every if part.dtype.kind == "f"]
    return np.concatenate([np.zeros(0), *parts]).astype(np.float32)


def unflat(vector: FlatVector, like: ArrayRecord) -> ArrayRecord:
    """The same form as `like`, whose whole numbers stay."""
    parts, place = {}, 0
    for key, each in like.items():
        part = each.numpy()
        if part.dtype.kind == "f":
            each = Array(np.asarray(vector[place : place + part.size].reshape(part.shape), part.dtype))
            place += part.size
        parts[key] = each
    return ArrayRecord(parts)


def norm(change: Mapping[str, Part]) -> float:
    return math.sqrt(sum(float(np.vdot(part, part)) for part in change.values()))


def difference(now: ArrayRecord, before: ArrayRecord) -> dict[str, Part]:
    """What became of the float arrays."""
    pairs = ((key, each.numpy(), before[key].numpy()) for key, each in now.items())
    return {key: np.subtract(x, y, dtype=np.float64) for key, x, y in pairs if x.dtype.kind == "f"}


def changed(arrays: ArrayRecord, change: dict[str, Any], factor: float) -> ArrayRecord:
    """arrays + factor * change, each in its own precision; arrays without a change as they are."""

    def moved(x: Part, way: Part) -> Array:
        return Array(np.asarray(x + factor * way, x.dtype))

    pairs = ((key, each, change.get(key)) for key, each in arrays.items())
    return ArrayRecord({key: each if way is None else moved(each.numpy(), way) for key, each, way in pairs})


def like(arrays: ArrayRecord, first: ArrayRecord) -> ArrayRecord:
    """In the precisions of the first ones: averages of whole numbers are fractions."""
    for key, each in arrays.items():
        if key in first and each.dtype != first[key].dtype:
            wanted = np.dtype(first[key].dtype)
            part = each.numpy() if wanted.kind == "f" else np.rint(each.numpy())
            arrays[key] = Array(np.asarray(part, wanted))
    return arrays


def size_of(arrays: ArrayRecord) -> int:
    """Bytes of their numbers."""
    return sum(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in arrays.values())


def wrong_form(arrays: ArrayRecord, anchor: ArrayRecord) -> str | None:
    """Names, shapes and types, before anything is made of them: nobody gets more memory than the model."""
    if set(arrays) != set(anchor):
        return f"the arrays {sorted(arrays)[:5]} came, and {sorted(anchor)[:5]} were sent"
    for name, ours in anchor.items():
        came, was = ((each.dtype, tuple(each.shape), each.stype) for each in (arrays[name], ours))
        if came != was:
            return f"{name[:60]} is {came[0]} {came[1]}, and was sent as {was[0]} {was[1]}"
    return None
