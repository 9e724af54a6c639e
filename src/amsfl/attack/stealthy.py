"""Attacks that hide: as far from the honest as the honest are from each other, honest for a while, by turns.

minmax and minsum are of Shejwalkar and Houmansadr 2021 (NDSS), "Manipulating the Byzantine".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amsfl.attack.uploads import Forge, attack, signflip
from amsfl.core import Attack, UserError, namespace

Array = Any


class Way(NamedTuple):
    """How far one can go from the honest mean m against their deviations s: ||m - g s - x_i||^2 =
    far_i - 2 g along_i + g^2 square."""

    mean: Array
    spread: Array
    honest: Array  # [n], 1 or 0
    far: Array  # [n]
    along: Array  # [n]
    square: Array
    pairs: Array  # [n, n], squared distances of honest ones; 0 for others


def minmax(clients: float) -> Attack:
    """The honest mean less as many deviations as leave it no further from anyone than two honest ones are.

    m - g s,   g the largest with max_i ||m - g s - x_i|| <= max_ij ||x_i - x_j||
    """

    def furthest(way: Way) -> Array:
        each = _most(way.along, way.square, way.pairs.max() - way.far)
        space = namespace(each)
        return space.min(space.where(way.honest > 0, each, each * 0 + float("inf")))

    return attack("minmax", clients, None, forge=_away(furthest))


def minsum(clients: float) -> Attack:
    """The same by sums: its squared distances to all honest ones are no more than those of any honest one.

    m - g s,   g the largest with sum_i ||m - g s - x_i||^2 <= max_i sum_j ||x_i - x_j||^2
    """

    def furthest(way: Way) -> Array:
        along, far = ((part * way.honest).sum() for part in (way.along, way.far))
        return _most(along, way.honest.sum() * way.square, way.pairs.sum(1).max() - far)

    return attack("minsum", clients, None, forge=_away(furthest))


def sleeper(clients: float, strength: float = 10) -> Attack:
    """Honest for `strength` rounds; from then on its upload is turned round, thrice."""
    if strength < 0:
        raise UserError(f"The attack 'sleeper' is honest for a number of rounds from 0, not {strength:g}.")

    def awake(number: int, who: Array) -> Array:
        return (who >= 0) & (number >= strength)

    return attack("sleeper", clients, strength, forge=signflip(clients, 3).forge, awake=awake)


def turns(clients: float) -> Attack:
    """Attackers take turns, by their numbers: each turns its upload round, thrice, every other round."""

    def awake(number: int, who: Array) -> Array:
        return (who + number) % 2 == 0

    return attack("turns", clients, None, forge=signflip(clients, 3).forge, awake=awake)


def _most(along: Array, square: Array, room: Array) -> Array:
    """The largest g with g^2 square - 2 g along <= room."""
    space = namespace(square)
    square = square + (square == 0)
    return (along + space.maximum(along * along + square * room, square * 0) ** 0.5) / square


def _away(furthest: Callable[[Way], Array]) -> Forge:
    """The honest mean less so many deviations."""

    def forge(rows: Array, attacking: Array, words: Array, weights: Array) -> Array:
        way = _way(rows, attacking)
        return rows * 0 + way.mean - furthest(way) * way.spread

    return forge


def _way(rows: Array, attacking: Array) -> Way:
    space = namespace(rows)
    honest = space.astype(attacking == 0, rows.dtype)
    share = (honest / (honest.sum() + (honest.sum() == 0)))[:, None]
    mean = (share * rows).sum(0)
    off = (rows - mean) * honest[:, None]
    spread = (share * off * off).sum(0) ** 0.5
    far, product = (off * off).sum(1), off @ off.T
    pairs = (far[:, None] + far[None, :] - 2 * product) * honest[:, None] * honest[None, :]
    return Way(mean, spread, honest, far, -(off @ spread), (spread * spread).sum(), pairs)
