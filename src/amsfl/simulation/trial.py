"""Where one trial stands: what is on the host, and the server's and the clients' own vectors."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from amsfl import clock, protocol
from amsfl.core.records import Array
from amsfl.methods import Method
from amsfl.planning.memory import PlannerMemory
from amsfl.simulation.event_queue import EventQueue
from amsfl.worth import ContributionLedger


class Vectors(NamedTuple):
    """All vectors that the next round needs. A method's state is empty where it has none."""

    anchor: Array  # [dim] what clients begin from
    server: Array
    step: Array  # [dim] the last global step: the direction that readings compare with
    client: Array  # [clients, ...] of methods with a state at clients
    memory: Array  # [clients, ...] what a client remembers of its transmissions
    history: Array  # [clients, ...] what a robust rule remembers of each


def first_vectors(method: Method, anchor: Array, clients: int) -> Vectors:
    """Before the first round."""
    client, memory = (
        np.repeat(part[None], clients, 0) for part in protocol.initial_client_state(method, anchor)
    )
    history = np.zeros((clients, protocol.remembers(method)), anchor.dtype)
    return Vectors(anchor, method.arithmetic.init(anchor)[0], 0 * anchor, client, memory, history)


@dataclass
class TrialState:
    """One trial's state. `host` of a checkpoint is exactly this, less its arrays and what is derived."""

    index: int
    seed: int
    memory: PlannerMemory
    vectors: Vectors
    round: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(clock.CLOCKS, 0.0))
    steps: list[int] = field(default_factory=list)  # of every client, of results that were taken
    begun: list[int] = field(default_factory=list)  # and of all that ever started, be they lost or under way
    status: str = "running"
    spent: dict[str, float] = field(default_factory=dict)  # joules, megabytes, cost so far
    reached: dict[str, float] | None = None  # seconds and rounds at the first evaluation that met the target
    best_score: float | None = None  # more is better (core/scores.py)
    best_round: int = 0
    stale: int = 0  # scored rounds since then
    local: dict[str, list[float | None]] | None = None  # score of each client's own model, by split
    queue: EventQueue = field(default_factory=EventQueue)
    ledger: ContributionLedger | None = None  # whose uploads moved the model, where that is kept
    best_ledger: ContributionLedger | None = None  # the judge's best anchor
