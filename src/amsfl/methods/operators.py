"""What methods need besides operators, on arrays of any kind."""

import sys
from typing import Any

from amsfl.core.records import Array

Vector = Any


def join(*parts: Vector) -> Vector:
    """One vector from several: a server state of more than one part. Sent to clients it must be of one."""
    first = parts[0]
    if hasattr(first, "__array_namespace__"):
        return first.__array_namespace__().concat(parts)
    return sys.modules[type(first).__module__].concat(parts)  # torch has the function, not yet the name


def least(a: Array, b: Array) -> Array:
    """The smaller of two numbers with operators alone, to the bit; not finite where either is not."""
    return a * (a < b) + b * (a >= b)


def clip(value: Array, low: Array, high: Array) -> Array:
    """`value`, but at least `low` and at most `high`."""
    return least(value * (value > low) + low * (value <= low), high)
