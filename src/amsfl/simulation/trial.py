"""Where one trial stands: all that a checkpoint keeps besides arrays."""

from dataclasses import dataclass, field

from amsfl import clock
from amsfl.planning.memory import PlannerMemory
from amsfl.simulation.event_queue import EventQueue
from amsfl.worth import ContributionLedger


@dataclass
class TrialState:
    """One trial's state on the host. `host` of a checkpoint is exactly this, less what is derived."""

    index: int
    seed: int
    memory: PlannerMemory
    round: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(clock.CLOCKS, 0.0))
    steps: list[int] = field(default_factory=list)  # of every client, of results that were taken
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

    @property
    def steps_begun(self) -> list[int]:
        """Every client's steps, those under way or lost included."""
        return [self.queue.begun.get(client, 0) for client in range(len(self.steps))]
