"""How an attack is put together."""

from typing import Any

from amsfl.core import Attack, UserError


def attack(name: str, clients: float, strength: float | None, **how: Any) -> Attack:
    """An attack by so many clients; its name is how it is spelled."""
    if clients < 0 or clients % 1:
        raise UserError(f"The attack {name!r} is by a whole number of clients, as in {name}:2.")
    spelled = f"{name}:{clients:g}" + ("" if strength is None else f"/{strength:g}")
    return Attack(spelled, int(clients), **how)
