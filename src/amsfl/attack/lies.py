"""Attacks on what is believed: labels, numbers of rows, readings, seconds a step."""

from typing import Any

from amsfl.attack.base import attack
from amsfl.attack.uploads import signflip
from amsfl.core import Attack, Reading


def labelflip(clients: float) -> Attack:
    """The client learns from rows whose class c is called C-1-c."""
    return attack("labelflip", clients, None, labels=True)


def rows(clients: float, strength: float = 1e6) -> Attack:
    """The client claims `strength` times its rows, and sends its upload turned round."""
    return attack("rows", clients, strength, forge=signflip(clients).forge, rows=strength)


def readings(clients: float, strength: float = 1e6) -> Attack:
    """The client says that its steps are worth `strength` times more, that nothing fades, that its loss is
    huge and its gradient tiny: all steps for me, and the longest ones."""

    def told(reading: Reading) -> Reading:
        more: dict[str, Any] = {
            "loss": reading.loss * strength,
            "grad_sq": reading.grad_sq / strength,
            "diff_sq": reading.diff_sq * 0,
            "grad_diff": reading.grad_diff * 0,
            "diff_dir": reading.diff_dir * 0,
            "grad_dir": -abs(reading.grad_dir) * strength,
            "delta_dir": abs(reading.delta_dir) * strength,
        }
        return reading._replace(**more)

    return attack("readings", clients, strength, told=told)


def seconds(clients: float, strength: float = 1e-6) -> Attack:
    """The client claims that a step takes it `strength` times the seconds that it does."""
    return attack("seconds", clients, strength, seconds=strength)
