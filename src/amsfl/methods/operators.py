"""What methods need besides operators, on arrays of any kind."""

import sys
from typing import Any

from amsfl.core.records import Array

Vector = Any


def library(array: Array) -> Any:
    """The functions of an array's own library."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    return sys.modules[type(array).__module__]  # torch has the functions, not yet the name


def join(*parts: Vector) -> Vector:
    """One vector from several: a server state of more than one part. Sent to clients it must be of one."""
    return library(parts[0]).concat(parts)


def where(condition: Array, yes: Array, no: Array) -> Array:
    """`yes` where the condition holds, else `no`; unlike a product with 0 it lets no NaN through."""
    if isinstance(yes, float):  # a real client's losses are plain numbers
        return yes if condition else no
    return library(yes).where(condition, yes, no)


def least(a: Array, b: Array) -> Array:
    """The smaller of two numbers with operators alone, to the bit; not finite where either is not."""
    return a * (a < b) + b * (a >= b)


def clip(value: Array, low: Array, high: Array) -> Array:
    """`value`, but at least `low` and at most `high`."""
    return least(value * (value > low) + low * (value <= low), high)
