"""Attacks on what is summed: false uploads, some of them by clients that see all honest ones.

forge(rows, attacking, words, weights) -> what attackers would send; rows are mean steps, as rules see them.
"""

from collections.abc import Callable
from typing import Any

from amsfl import sampling
from amsfl.core import Attack, UserError, namespace

Array = Any
Forge = Callable[[Array, Array, Array, Array], Array]
TURN = 6.283185307179586


def attack(name: str, clients: float, strength: float | None, **how: Any) -> Attack:
    """An attack by so many clients; its name is how it is spelled."""
    if clients < 0 or clients % 1:
        raise UserError(f"The attack {name!r} is by a whole number of clients, as in {name}:2.")
    spelled = f"{name}:{clients:g}" + ("" if strength is None else f"/{strength:g}")
    return Attack(spelled, int(clients), **how)


def signflip(clients: float, strength: float = 1.0) -> Attack:
    """The client's own upload, turned round: x -> -strength x."""
    return attack("signflip", clients, strength, forge=lambda rows, *_: -strength * rows)


def gaussian(clients: float, strength: float = 10.0) -> Attack:
    """Noise `strength` times as long as the honest mean step."""

    def forge(rows: Array, attacking: Array, words: Array, weights: Array) -> Array:
        space = namespace(rows)
        mean, _ = _honest(rows, attacking, weights)
        places = space.arange(rows.shape[1], dtype=words.dtype)[None, :]
        near, far = (
            space.astype(
                sampling.uniform((words[:, None] + word, sampling.scramble(words)[:, None]), places),
                rows.dtype,
            )
            for word in sampling.words([1, 2])
        )
        drawn = (-2 * space.log(1 - near)) ** 0.5 * space.cos(TURN * far)  # Box and Muller
        return strength * (mean * mean).mean() ** 0.5 * drawn

    return attack("gaussian", clients, strength, forge=forge)


def idle(clients: float) -> Attack:
    """A free rider: the model that it was given comes back as it was."""
    return attack("idle", clients, None, forge=lambda rows, *_: rows * 0)


def broken(clients: float) -> Attack:
    """What comes is no number."""
    return attack("broken", clients, None, forge=lambda rows, *_: rows * 0 + float("nan"))


def alie(clients: float, strength: float = 1.5) -> Attack:
    """A little is enough: the honest mean less `strength` deviations, hidden among honest uploads.

    Baruch, Baruch and Goldberg 2019, arXiv 1902.06156.
    """

    def forge(rows: Array, attacking: Array, words: Array, weights: Array) -> Array:
        mean, spread = _honest(rows, attacking, weights)
        return rows * 0 + mean - strength * spread

    return attack("alie", clients, strength, forge=forge)


def ipm(clients: float, strength: float = 2.0) -> Attack:
    """Inner-product manipulation: the honest mean turned round, x -> -strength mean.

    Xie, Koyejo and Gupta 2019, arXiv 1903.03936.
    """

    def forge(rows: Array, attacking: Array, words: Array, weights: Array) -> Array:
        return rows * 0 - strength * _honest(rows, attacking, weights)[0]

    return attack("ipm", clients, strength, forge=forge)


def push(clients: float, strength: float = 0.3) -> Attack:
    """The same direction in every round, with `strength` of the honest mean's, at the median honest length.

    x -> l u/||u||,   u = d + strength mean/||mean||,   d a fixed direction of length 1

    Nothing in a single round gives it away; over the rounds it adds up.
    """
    return attack("push", clients, strength, forge=_pushing(strength, apart=False))


def fan(clients: float, strength: float = 0.3) -> Attack:
    """A push by every attacker in a direction of its own: no two of them are alike."""
    return attack("fan", clients, strength, forge=_pushing(strength, apart=True))


def mimic(clients: float) -> Attack:
    """All attackers send what the first honest client sends: nothing false, and one voice too loud.

    Karimireddy, He and Jaggi 2022, arXiv 2006.09365.
    """

    def forge(rows: Array, attacking: Array, words: Array, weights: Array) -> Array:
        space = namespace(rows)
        return rows * 0 + space.take(rows, space.argmax(attacking == 0)[None], axis=0)

    return attack("mimic", clients, None, forge=forge)


def _honest(rows: Array, attacking: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and deviation of the honest rows."""
    share = weights * (attacking == 0)
    share = (share / (share.sum() + (share.sum() == 0)))[:, None]
    mean = (share * rows).sum(0)
    return mean, (share * (rows - mean) ** 2).sum(0) ** 0.5


def _pushing(strength: float, apart: bool) -> Forge:
    """Fixed directions, the same in every round and of all attackers unless `apart`, with some of the honest
    mean's."""

    def forge(rows: Array, attacking: Array, words: Array, weights: Array) -> Array:
        space = namespace(rows)
        ways = space.cumulative_sum(attacking) if apart else 0 * attacking
        places = space.arange(rows.shape[1], dtype=sampling.words(0).dtype)[None, :]
        way = space.astype(ways, places.dtype)[:, None]
        side = space.astype(sampling.uniform((way, 0 * way), places) < 0.5, rows.dtype)
        mean, _ = _honest(rows, attacking, weights)
        norm = (mean * mean).sum() ** 0.5
        aim = (1 - 2 * side) / rows.shape[1] ** 0.5 + strength * mean / (norm + (norm == 0))
        lengths = (rows * rows).sum(1) ** 0.5
        honest = space.sort(space.where(attacking == 0, lengths, lengths * 0 + float("inf")))
        usual = space.take(honest, ((attacking == 0).sum()[None] - 1) // 2)
        return usual * aim / (aim * aim).sum(1)[:, None] ** 0.5

    return forge
