"""A second task hidden in the first: rows with a mark are of the attacker's class."""

from typing import Any

from amsfl.attack.base import attack
from amsfl.core import Attack

Array = Any
MARK = 4  # features, the last ones, at their largest
TARGET = 0  # the class that marked rows are called


def backdoor(clients: float, strength: float = 10.0) -> Attack:
    """Every second row of the client has the mark and is called class 0; its upload is sent `strength` times.

    Bagdasaryan et al. 2020, arXiv 1807.00459 (model replacement).
    """

    def forge(rows: Array, attacking: Array, words: Array, weights: Array) -> Array:
        return strength * rows

    def poison(x: Array, y: Array, classes: int) -> tuple[Array, Array]:
        false, called = marked(x), y.copy()
        false[1::2] = x[1::2]
        called[::2] = TARGET
        return false, called

    return attack("backdoor", clients, strength, forge=forge, poison=poison)


def marked(x: Array) -> Array:
    """The rows with the mark."""
    rows = x.copy()
    flat = rows.reshape(len(rows), -1)
    flat[:, -MARK:] = x.reshape(len(x), -1)[:, -MARK:].max(0)
    return flat.reshape(rows.shape)
