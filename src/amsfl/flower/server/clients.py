"""The registered clients: each has a name, its rows, and the node that it is reached at now."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.flower.messages import Hello

MOST = 100  # times the others' median: nobody's word about its rows, nor its seconds, counts for more


class RegisteredClient(NamedTuple):
    name: str  # what the client calls itself: its partition-id, or its node id where it has none
    rows: int
    node: int
    accepted: int = -1  # last round of which its work was taken
    own_optimizer: bool = False  # it moves by an optimizer of its own
    epsilon: float | None = None  # what its own budget of privacy had left when it came; None: it has none
    spends: dict[str, float] = {}  # noqa: RUF012 (nobody changes it); what it says that steps and bytes cost


def registered_client(node: int, hello: Hello) -> RegisteredClient:
    return RegisteredClient(
        hello.name, hello.rows, node, -1, hello.own_optimizer, hello.epsilon, hello.spends
    )


def registered_clients(hellos: dict[int, Hello]) -> list[RegisteredClient]:
    """In order of names, numbers as numbers: client i of a simulation is partition-id i here."""
    registered = [registered_client(node, hello) for node, hello in hellos.items()]
    digits = all(client.name.isascii() and client.name.isdecimal() for client in registered)
    return sorted(registered, key=lambda client: (int(client.name) if digits else 0, client.name))


def weights(registered: Sequence[RegisteredClient]) -> Any:
    """Every client's share of all rows, as far as they are believed."""
    rows = believed(registered)
    return rows / rows.sum()


def believed(registered: Sequence[RegisteredClient]) -> Any:
    """Rows as clients say, at most MOST times the median of the others': that many, one could own alone."""
    return bounded(np.array([client.rows for client in registered], float), MOST)


def bounded(claims: Any, times: float) -> Any:
    """Each at most so many times the median of the others', of those above zero; a single one as it is."""
    if len(claims) < 2:
        return claims
    others = (np.delete(claims, place) for place in range(len(claims)))
    middles = [np.median(some[some > 0]) if (some > 0).any() else 0.0 for some in others]
    return np.minimum(claims, times * np.array(middles))


def index_of(registered: Sequence[RegisteredClient], name: str) -> int | None:
    return next((who for who, client in enumerate(registered) if client.name == name), None)


def draw(
    registered: Sequence[RegisteredClient], free: set[int], cohort: int | None, seed: int, number: int
) -> Any:
    """This round's clients: the simulation's draw, with those away replaced by others that are here."""
    here = [place for place, client in enumerate(registered) if client.node in free]
    count = min(cohort or len(registered), len(here))
    if cohort is None or cohort >= len(registered):
        return np.array(here, int)
    rng = np.random.default_rng([seed, number, 0xC0])
    drawn = [int(who) for who in rng.choice(len(registered), cohort, replace=False) if int(who) in here]
    others = [int(who) for who in rng.permutation([place for place in here if place not in drawn])]
    return np.array(sorted([*drawn, *others][:count]), int)
