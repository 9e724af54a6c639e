"""Where one trial stands: numbers on the host, the server's and the clients' vectors; its checkpoint."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from amsfl import clock, protocol, worth
from amsfl.core.records import Array
from amsfl.engines import Models
from amsfl.methods import Federation
from amsfl.planning.planner import PlannerMemory
from amsfl.record import Checkpoint
from amsfl.simulation.event_queue import EventQueue

OLDER, BEST = "older.", "best"  # models in a checkpoint: that work under way began from, the best round's


class Vectors(NamedTuple):
    """All vectors that the next round needs. A method's state is empty where it has none."""

    anchor: Array  # [dim] what clients begin from
    server: Array
    step: Array  # [dim] the last global step: the direction that readings compare with
    client: Array  # [clients, ...] of methods with a state at clients
    memory: Array  # [clients, ...] what a client remembers of its transmissions
    history: Array  # [clients, ...] what a robust rule remembers of each


def first_vectors(federation: Federation, anchor: Array, clients: int) -> Vectors:
    """Before the first round."""
    client, memory = (
        np.repeat(part[None], clients, 0) for part in protocol.initial_client_state(federation, anchor)
    )
    kept = 0 if federation.rule is None else federation.rule.remembers
    history = np.zeros((clients, kept), anchor.dtype)
    return Vectors(anchor, federation.method.init(anchor)[0], 0 * anchor, client, memory, history)


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
    best_model: Array | None = None  # what was scored then, where a run alone keeps it
    stale: int = 0  # scored rounds since then
    local: dict[str, list[float | None]] | None = None  # score of each client's own model, by split
    queue: EventQueue = field(default_factory=EventQueue)
    ledger: worth.ContributionLedger | None = None  # whose uploads moved the model, where that is kept
    best_ledger: worth.ContributionLedger | None = None  # the judge's best anchor

    def checkpoint(self) -> Checkpoint:
        """All that the next round needs."""
        arrays = self.vectors._asdict() | worth.as_arrays(self)
        for version, models in self.queue.models.items():
            arrays |= {f"{OLDER}{version}.{key}": part for key, part in models._asdict().items()}
        if self.best_model is not None:
            arrays[BEST] = self.best_model
        own = {"memory": self.memory.dump(), "queue": self.queue.dump()}
        host = vars(self) | own | dict.fromkeys([*worth.FIELDS, "best_model"])
        del host["vectors"]
        return Checkpoint(self.round, arrays, host)


def load_trial(point: Checkpoint) -> TrialState:
    """The trial whose checkpoint this is."""
    parts = point.under(OLDER)
    versions = {int(name.partition(".")[0]) for name in parts}
    older = {each: Models(*(parts[f"{each}.{name}"] for name in Models._fields)) for each in versions}
    own = {
        "memory": PlannerMemory.load(point.host["memory"]),
        "vectors": Vectors(*(np.array(point.arrays[name]) for name in Vectors._fields)),
        "queue": EventQueue.load(point.host["queue"], older),
        "best_model": point.arrays.get(BEST),
    }
    return TrialState(**point.host | own | worth.from_checkpoint(point))
