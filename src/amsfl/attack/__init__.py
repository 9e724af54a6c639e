"""What clients of a simulation may do to a federation: one table for all."""

from amsfl.attack.false_reports import (
    alarm,
    backdoor,
    colluders,
    drift,
    labelflip,
    rows,
    seconds,
)
from amsfl.attack.stealthy import minmax, minsum, sleeper, turns
from amsfl.attack.uploads import alie, broken, fan, gaussian, idle, ipm, mimic, push, signflip
from amsfl.core import Attack, Kind, parse_names

_ALL = (
    *(signflip, gaussian, labelflip, alie, ipm, mimic, push, fan, minmax, minsum, sleeper, turns),
    *(backdoor, idle, broken, rows, colluders, drift, alarm, seconds),
)
ATTACKS: Kind[Attack] = Kind("attack", "attacks", Attack, {each.__name__: each for each in _ALL})
names = ATTACKS.names


def make(given: str) -> list[Attack]:
    """`signflip:2` as the attack of two clients; `signflip:2,gaussian:1` as those of three."""
    return [
        ATTACKS.make(name, dict(zip(ATTACKS.settings(name), numbers, strict=False)))
        for name, numbers in parse_names(given)
    ]


__all__ = ["ATTACKS", "make", "names"]
