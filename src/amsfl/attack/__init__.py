"""What clients of a simulation may do to a federation: one table for all."""

from amsfl.attack.backdoor import backdoor
from amsfl.attack.false_reports import alarm, colluders, drift, gain, labelflip, loss, readings, rows, seconds
from amsfl.attack.stealthy import minmax, minsum, sleeper, turns
from amsfl.attack.uploads import alie, broken, fan, gaussian, idle, ipm, mimic, push, signflip
from amsfl.core import Attack, Kind, parse_names

ATTACKS: Kind[Attack] = Kind(
    "attack",
    "attacks",
    Attack,
    {
        "signflip": signflip,
        "gaussian": gaussian,
        "labelflip": labelflip,
        "alie": alie,
        "ipm": ipm,
        "mimic": mimic,
        "push": push,
        "fan": fan,
        "minmax": minmax,
        "minsum": minsum,
        "sleeper": sleeper,
        "turns": turns,
        "backdoor": backdoor,
        "idle": idle,
        "broken": broken,
        "rows": rows,
        "colluders": colluders,
        "gain": gain,
        "drift": drift,
        "loss": loss,
        "alarm": alarm,
        "readings": readings,
        "seconds": seconds,
    },
)
names = ATTACKS.names


def make(given: str) -> list[Attack]:
    """`signflip:2` as the attack of two clients; `signflip:2,gaussian:1` as those of three."""
    return [
        ATTACKS.make(name, dict(zip(ATTACKS.settings(name), numbers, strict=False)))
        for name, numbers in parse_names(given)
    ]


__all__ = ["ATTACKS", "make", "names"]
