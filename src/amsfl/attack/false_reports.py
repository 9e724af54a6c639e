"""Attacks on what is believed: labels, numbers of rows, readings, seconds a step."""

from typing import Any

from amsfl.attack.base import attack
from amsfl.attack.uploads import signflip
from amsfl.core import Attack, Reading


def labelflip(clients: float) -> Attack:
    """The client learns from rows whose class c is called C-1-c."""

    def poison(x: Any, y: Any, classes: int) -> tuple[Any, Any]:
        return x, (classes - 1 if classes else 0) - y

    return attack("labelflip", clients, None, poison=poison)


def rows(clients: float, strength: float = 1e6) -> Attack:
    """The client claims `strength` times its rows, and sends its upload turned round."""
    return attack("rows", clients, strength, forge=signflip(clients).forge, rows=strength)


def gain(clients: float, strength: float = 1e6) -> Attack:
    """The client says that its steps are worth `strength` times what they are."""

    def falsify(reading: Reading) -> Reading:
        more: dict[str, Any] = {
            "grad_dir": -abs(reading.grad_dir) * strength,
            "delta_dir": abs(reading.delta_dir) * strength,
        }
        return reading._replace(**more)

    return attack("gain", clients, strength, falsify=falsify)


def drift(clients: float) -> Attack:
    """The client says that its steps do not fade: its gradient never changes."""

    def falsify(reading: Reading) -> Reading:
        none: dict[str, Any] = {
            name: getattr(reading, name) * 0 for name in ("diff_sq", "grad_diff", "diff_dir")
        }
        return reading._replace(**none)

    return attack("drift", clients, None, falsify=falsify)


def loss(clients: float, strength: float = 1e6) -> Attack:
    """The client says that its loss is `strength` times what it is, its squared gradient as much less, and
    the learning rate that it found as much more: long steps for all."""

    def falsify(reading: Reading) -> Reading:
        more: dict[str, Any] = {name: getattr(reading, name) * strength for name in ("loss", "opening")}
        return reading._replace(grad_sq=reading.grad_sq / strength, **more)

    return attack("loss", clients, strength, falsify=falsify)


def alarm(clients: float, strength: float = 1e6) -> Attack:
    """The client says that the rows which it holds back have `strength` times their loss: go back."""

    def falsify(reading: Reading) -> Reading:
        return reading._replace(held_loss=reading.held_loss * strength)

    return attack("alarm", clients, strength, falsify=falsify)


def readings(clients: float, strength: float = 1e6) -> Attack:
    """Gain, drift and loss at once: all steps for me, and the longest ones."""
    lies = [each.falsify for each in (gain(clients, strength), drift(clients), loss(clients, strength))]

    def falsify(reading: Reading) -> Reading:
        for lie in lies:
            assert lie is not None
            reading = lie(reading)
        return reading

    return attack("readings", clients, strength, falsify=falsify)


def colluders(clients: float, strength: float = 50.0) -> Attack:
    """`strength` times the rows, as many times fewer seconds, false readings, and the upload turned round."""
    falsify = readings(clients, strength).falsify
    forge = signflip(clients).forge
    return attack(
        "colluders", clients, strength, forge=forge, falsify=falsify, rows=strength, seconds=1 / strength
    )


def seconds(clients: float, strength: float = 1e-6) -> Attack:
    """The client claims that a step takes it `strength` times the seconds that it does."""
    return attack("seconds", clients, strength, seconds=strength)
