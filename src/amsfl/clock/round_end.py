"""How a round ends, and what an upload that comes late is worth: two settings, read once."""

import math
from collections.abc import Callable
from typing import NamedTuple

from amsfl.core import UserError, nearest

Worth = Callable[[float], float]

ENDS = ("all", "deadline", "quorum", "buffer", "groups")
GROUPS = (0.2, 1.2)  # the least part of its steps that a client is cut to, and how late a group may be
STALENESS = ("constant", "sqrt", "poly", "hinge")


class RoundEnd(NamedTuple):
    """When the server moves on.

    all: when everyone under way is in; deadline: so many `seconds` after it invited them; quorum: when
    `enough` are in; buffer: the same, and clients start again at once, not when the server has moved;
    groups: clients get the steps, at `least` so large a part of theirs, by which some of them arrive
    together, and the server moves when such a group is in, or has taken `factor` of the time that it was to.
    """

    kind: str = "all"
    enough: int = 0
    seconds: float = math.inf
    least: float = GROUPS[0]
    factor: float = GROUPS[1]

    @property
    def asynchronous(self) -> bool:
        """Whether clients start again before the server has moved with everybody's work."""
        return self.kind in ("buffer", "groups")


def round_end(text: str) -> RoundEnd:
    """How a round ends, from `all`, `deadline:2.5`, `quorum:3`, `buffer:10` or `groups`.

    Args:
        text: As the setting spells it.

    Returns:
        The kind and its number.
    """
    kind, _, argument = text.partition(":")
    if kind not in ENDS:
        raise UserError(f"Unknown round end {text!r}{nearest(kind, ENDS)}; as in deadline:2.5 or quorum:3.")
    if kind == "all":
        if argument:
            raise UserError(f"Round end {text!r}: all takes no number; write all.")
        return RoundEnd()
    if kind == "groups":
        return _groups(text, argument)
    try:
        number = float(argument)
    except ValueError:
        number = math.nan
    if kind == "deadline":
        if not 0 < number <= 1e9:
            raise UserError(f"Round end {text!r}: write the seconds of a round, as in deadline:2.5.")
        return RoundEnd(kind, seconds=number)
    if not (1 <= number <= 1e6 and number == int(number)):
        raise UserError(f"Round end {text!r}: write a number of clients, as in {kind}:3.")
    return RoundEnd(kind, int(number))


def _groups(text: str, argument: str) -> RoundEnd:
    try:
        least, factor = (float(part) for part in argument.split(",")) if argument else GROUPS
    except ValueError:
        least = factor = math.nan
    if not (0 < least <= 1 and 1 <= factor <= 1e6):
        raise UserError(
            f"Round end {text!r}: write groups, or groups:0.2,1.2: the least part of its steps that a client "
            "takes, and how many times as long as planned a group is waited for."
        )
    return RoundEnd("groups", least=least, factor=factor)


def staleness(text: str) -> Worth:
    """By how much an upload counts that is t moves of the server old; 1 where it is new.

    constant: 1; sqrt: 1/sqrt(1+t) (FedBuff); poly:A: (1+t)^-A; hinge:A,B: 1 up to t = B, then 1/(A(t-B)+1)
    (FedAsync).

    Args:
        text: As the setting spells it.

    Returns:
        A function of t.
    """
    kind, _, argument = text.partition(":")
    if kind not in STALENESS:
        raise UserError(f"Unknown staleness {text!r}{nearest(kind, STALENESS)}.")
    wanted = {"poly": 1, "hinge": 2}.get(kind, 0)
    try:
        numbers = [float(part) for part in argument.split(",")] if argument else []
    except ValueError:
        numbers = []
    if len(numbers) != wanted or not all(0 <= number <= 1e6 for number in numbers):
        form = {"poly": "poly:0.5", "hinge": "hinge:10,4"}.get(kind, kind)
        raise UserError(f"Staleness {text!r}: write {form}.")
    if kind == "constant":
        return lambda age: 1.0
    if kind == "sqrt":
        return lambda age: 1 / math.sqrt(1 + age)
    if kind == "poly":
        return lambda age: float((1 + age) ** -numbers[0])
    slope, free = numbers
    return lambda age: 1.0 if age <= free else 1 / (slope * (age - free) + 1)
