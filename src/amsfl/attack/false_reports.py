"""Attacks on what is learnt and believed: rows and labels, numbers of rows, readings, seconds a step."""

from typing import Any

from amsfl.attack.uploads import attack, signflip
from amsfl.core import Attack, Reading

Array = Any
MARK = 4  # features, the last ones, at their largest
TARGET = 0  # the class that marked rows are called


def labelflip(clients: float) -> Attack:
    """The client learns from rows whose class c is called C-1-c."""

    def poison(x: Array, y: Array, classes: int) -> tuple[Array, Array]:
        return x, (classes - 1 if classes else 0) - y

    return attack("labelflip", clients, None, poison=poison)


def backdoor(clients: float, strength: float = 10.0) -> Attack:
    """A second task hidden in the first: every second row of the client has the mark and is called
    class 0, and its upload is sent `strength` times.

    Bagdasaryan et al. 2020, arXiv 1807.00459 (model replacement).
    """

    def poison(x: Array, y: Array, classes: int) -> tuple[Array, Array]:
        false, called = marked(x), y.copy()
        false[1::2] = x[1::2]
        called[::2] = TARGET
        return false, called

    return attack("backdoor", clients, strength, forge=lambda rows, *_: strength * rows, poison=poison)


def marked(x: Array) -> Array:
    """The rows with the mark."""
    rows = x.copy()
    flat = rows.reshape(len(rows), -1)
    flat[:, -MARK:] = x.reshape(len(x), -1)[:, -MARK:].max(0)
    return flat.reshape(rows.shape)


def rows(clients: float, strength: float = 1e6) -> Attack:
    """The client claims `strength` times its rows, and sends its upload turned round."""
    return attack("rows", clients, strength, forge=signflip(clients).forge, rows=strength)


def drift(clients: float) -> Attack:
    """The client says that its steps do not fade: its gradient never changes."""

    def falsify(reading: Reading) -> Reading:
        return reading._replace(diff_sq=reading.diff_sq * 0, grad_diff=reading.grad_diff * 0)

    return attack("drift", clients, None, falsify=falsify)


def alarm(clients: float, strength: float = 1e6) -> Attack:
    """The client says that the rows which it holds back have `strength` times their loss: go back."""

    def falsify(reading: Reading) -> Reading:
        return reading._replace(held_loss=reading.held_loss * strength)

    return attack("alarm", clients, strength, falsify=falsify)


def colluders(clients: float, strength: float = 50.0) -> Attack:
    """`strength` times the rows, as many times fewer seconds, false readings, and the upload turned round."""
    false = {"forge": signflip(clients).forge, "falsify": drift(clients).falsify}
    return attack("colluders", clients, strength, rows=strength, seconds=1 / strength, **false)


def seconds(clients: float, strength: float = 1e-6) -> Attack:
    """The client claims that a step takes it `strength` times the seconds that it does."""
    return attack("seconds", clients, strength, seconds=strength)
