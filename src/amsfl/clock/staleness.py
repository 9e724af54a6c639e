"""What a result counts that was computed from an older model, by its age in moves of the server."""

import math
from collections.abc import Callable

from amsfl.core import UserError, nearest

Weight = Callable[[float], float]
NUMBERS = {"constant": 0, "sqrt": 0, "poly": 1, "hinge": 2}  # that each kind takes


def constant(age: float) -> float:
    """1 for any age."""
    return 1.0


def sqrt(age: float) -> float:
    """1/sqrt(1 + age), as in FedBuff."""
    return 1 / math.sqrt(1 + age)


def staleness(text: str) -> Weight:
    """The weight that a setting names: constant; sqrt; poly:A, (1+t)^-A; hinge:A/B, 1 up to t = B, then
    1/(A(t-B)+1), as in FedAsync.

    Args:
        text: As the setting spells it.

    Returns:
        A function of the age t; 1 where t is 0.
    """
    kind, _, argument = text.partition(":")
    if kind not in NUMBERS:
        raise UserError(f"Unknown staleness {text!r}{nearest(kind, NUMBERS)}.")
    try:
        numbers = [float(part) for part in argument.split("/")] if argument else []
    except ValueError:
        numbers = []
    if len(numbers) != NUMBERS[kind] or not all(0 <= number <= 1e6 for number in numbers):
        form = {"poly": "poly:0.5", "hinge": "hinge:10/4"}.get(kind, kind)
        raise UserError(f"Staleness {text!r}: write {form}.")
    if kind == "poly":
        return lambda age: float((1 + age) ** -numbers[0])
    if kind == "hinge":
        slope, free = numbers
        return lambda age: 1.0 if age <= free else 1 / (slope * (age - free) + 1)
    return constant if kind == "constant" else sqrt
