"""What clients of a simulation may do to a federation: the six attacks that hurt most (docs/robust.md).

forge(rows, attacking, weights) -> what attackers would send; rows are mean steps, as rules see them, and some
attackers see all honest ones.
"""

from typing import Any

from amsfl.core import Attack, Kind, Reading, UserError, namespace, parse_names

Array = Any


def signflip(clients: float, strength: float = 1.0) -> Attack:
    """The client's own upload, turned round: x -> -strength x."""
    return _attack("signflip", clients, strength, forge=lambda rows, *_: -strength * rows)


def sleeper(clients: float, strength: float = 10) -> Attack:
    """Honest for `strength` rounds; from then on its upload is turned round, thrice."""
    if strength < 0:
        raise UserError(f"The attack 'sleeper' is honest for a number of rounds from 0, not {strength:g}.")

    def awake(number: int, who: Array) -> Array:
        return (who >= 0) & (number >= strength)

    return _attack("sleeper", clients, strength, forge=signflip(clients, 3).forge, awake=awake)


def alie(clients: float, strength: float = 1.5) -> Attack:
    """A little is enough: the honest mean less `strength` deviations, hidden among honest uploads.

    Baruch, Baruch and Goldberg 2019, arXiv 1902.06156.
    """

    def forge(rows: Array, attacking: Array, weights: Array) -> Array:
        share = weights * (attacking == 0)
        share = (share / (share.sum() + (share.sum() == 0)))[:, None]
        mean = (share * rows).sum(0)
        return rows * 0 + mean - strength * (share * (rows - mean) ** 2).sum(0) ** 0.5

    return _attack("alie", clients, strength, forge=forge)


def mimic(clients: float) -> Attack:
    """All attackers send what the first honest client sends: nothing false, and one voice too loud.

    Karimireddy, He and Jaggi 2022, arXiv 2006.09365.
    """

    def forge(rows: Array, attacking: Array, weights: Array) -> Array:
        space = namespace(rows)
        return rows * 0 + space.take(rows, space.argmax(attacking == 0)[None], axis=0)

    return _attack("mimic", clients, None, forge=forge)


def labelflip(clients: float) -> Attack:
    """The client learns from rows whose class c is called C-1-c."""

    def poison(x: Array, y: Array, classes: int) -> tuple[Array, Array]:
        return x, (classes - 1 if classes else 0) - y

    return _attack("labelflip", clients, None, poison=poison)


def colluders(clients: float, strength: float = 50.0) -> Attack:
    """`strength` times the rows, as many times fewer seconds a step, the upload turned round; readings say
    that steps never fade."""

    def falsify(reading: Reading) -> Reading:
        return reading._replace(diff_sq=reading.diff_sq * 0, grad_diff=reading.grad_diff * 0)

    false = {"forge": signflip(clients).forge, "falsify": falsify, "rows": strength, "seconds": 1 / strength}
    return _attack("colluders", clients, strength, **false)


def _attack(name: str, clients: float, strength: float | None, **how: Any) -> Attack:
    """An attack by so many clients; its name is how it is spelled."""
    if clients < 0 or clients % 1:
        raise UserError(f"The attack {name!r} is by a whole number of clients, as in {name}:2.")
    spelled = f"{name}:{clients:g}" + ("" if strength is None else f"/{strength:g}")
    return Attack(spelled, int(clients), **how)


_ALL = signflip, sleeper, alie, mimic, labelflip, colluders
ATTACKS: Kind[Attack] = Kind("attack", Attack, {each.__name__: each for each in _ALL})


def make(given: str) -> list[Attack]:
    """`signflip:2` as the attack of two clients; `signflip:2,alie:1` as those of three."""
    return [
        ATTACKS.make(name, dict(zip(ATTACKS.settings(name), numbers, strict=False)))
        for name, numbers in parse_names(given)
    ]
