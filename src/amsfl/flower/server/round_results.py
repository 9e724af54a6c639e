# ruff: noqa: RUF012  (nobody changes a default)
"""What a round of real clients brings, and what the server moves with."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.flower.server.reply_checks import AcceptedReply
from amsfl.planning.memory import Decision

MOST_PLAIN_STEPS = 10.0  # times the cohort's median, for each step of an optimizer of a client's own


class DroppedWork(NamedTuple):
    client: int
    begin: float
    end: float
    steps: int


class RoundResults(NamedTuple):
    """What the server moves with; behind `dropped` what the move then says of it (update.py)."""

    decision: Decision  # the plan of those whose work is here, as it was ordered
    replies: list[AcceptedReply]  # by client
    bytes_down: float
    seconds: float  # from the orders to the last reply, or since the last move
    timeline: dict[str, Any]  # where clients do not wait for each other
    dropped: list[DroppedWork]
    agreement: float = 0.0  # of the uploads that the server moved with
    weighed: dict[str, Any] = {}  # how much each client counts after each link of a rule
    reading: Reading | None = None  # that the planner learnt from
    spent: dict[str, float] = {}  # joules, megabytes, cost

    @property
    def cohort(self) -> Any:
        return np.array([item.client for item in self.replies], int)

    @property
    def steps(self) -> Any:
        return np.array([item.reply.steps for item in self.replies], int)

    @property
    def bytes_up(self) -> float:
        return float(sum(item.bytes_up for item in self.replies))

    @property
    def clocks(self) -> dict[str, float]:
        """Seconds by clock."""
        return {"sum": float(sum(item.seconds for item in self.replies)), "makespan": float(self.seconds)}

    def without(self, reply: AcceptedReply) -> "RoundResults":
        """The same round as if that reply had been refused."""
        rest = [place for place, item in enumerate(self.replies) if item is not reply]

        def some(value: Any) -> Any:
            """Of a list that has one entry for each client; anything else as it is."""
            by_client = isinstance(value, list) and len(value) == len(self.replies)
            return [value[place] for place in rest] if by_client else value

        decision, lr = self.decision, self.decision.lr
        begin, steps = reply.arrived_at - reply.seconds, reply.job.order.steps
        return self._replace(
            decision=decision._replace(
                steps=decision.steps[rest],
                lr=lr[rest] if isinstance(lr, np.ndarray) else lr,
                explain={key: some(value) for key, value in decision.explain.items()},
            ),
            replies=some(self.replies),
            timeline={key: some(value) for key, value in self.timeline.items()},
            dropped=[*self.dropped, DroppedWork(reply.client, begin, reply.arrived_at, steps)],
        )


def plain_steps(replies: Sequence[AcceptedReply]) -> Any:
    """Steps as averages count them: where an optimizer of a client's own moved it, what that amounts to.

    That is the client's word, so for each of its steps it is at most MOST_PLAIN_STEPS times more or less than
    the others'.
    """
    steps = np.array([item.reply.steps for item in replies], float)
    if not len(steps):
        return steps
    each = np.array([item.reply.effective for item in replies]) / steps
    median = float(np.median(each))
    bounds = median / MOST_PLAIN_STEPS, median * MOST_PLAIN_STEPS
    return steps * np.clip(each, *bounds) if median > 0 else steps
