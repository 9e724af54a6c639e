"""What a round of real clients brings: open orders, replies that have arrived, what the server moves with."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.flower import messages
from amsfl.flower.server.reply_checks import AcceptedReply
from amsfl.planning.planner import Decision
from amsfl.simulation.event_queue import all_equal


class OpenOrder(NamedTuple):
    order: messages.Order
    node: int
    model: messages.GlobalModel  # what the client begins from
    version: int  # how often the server had moved by then
    own: dict[str, Any]  # why these steps: this client's part of the plan
    shared: dict[str, Any]  # and the whole plan's
    sent_at: float


class ArrivedReply(NamedTuple):
    job: OpenOrder
    reply: AcceptedReply


class DroppedWork(NamedTuple):
    client: int
    begin: float
    end: float
    steps: int


class RoundResults(NamedTuple):
    """What the server moves with."""

    decision: Decision  # the plan of those whose work is here, as it was ordered
    model: messages.GlobalModel  # that the next one is made from
    replies: list[AcceptedReply]  # by client
    bytes_down: float
    seconds: float  # from the orders to the last reply, or since the last move
    timeline: dict[str, Any]  # where clients do not wait for each other
    dropped: list[DroppedWork]

    @property
    def cohort(self) -> Any:
        return np.array([item.client for item in self.replies], int)

    def without(self, reply: AcceptedReply) -> "RoundResults":
        """The same round as if that reply had been refused."""
        rest = [place for place, item in enumerate(self.replies) if item is not reply]
        explain = {key: _some(value, rest, len(self.replies)) for key, value in self.decision.explain.items()}
        timeline = {key: _some(value, rest, len(self.replies)) for key, value in self.timeline.items()}
        lr: Any = self.decision.lr
        lr = lr[rest] if isinstance(lr, np.ndarray) else lr
        decision = self.decision._replace(steps=self.decision.steps[rest], lr=lr, explain=explain)
        lost = DroppedWork(reply.client, reply.arrived_at - reply.seconds, reply.arrived_at, reply.asked)
        return self._replace(
            decision=decision,
            replies=[self.replies[place] for place in rest],
            timeline=timeline,
            dropped=[*self.dropped, lost],
        )


def _some(value: Any, places: Sequence[int], length: int) -> Any:
    """These entries of a list that has one for each client; anything else as it is."""
    return [value[place] for place in places] if isinstance(value, list) and len(value) == length else value


def rate_of(jobs: Sequence[OpenOrder]) -> Any:
    """The learning rate of these orders: one number, one each, or None where nobody knew one."""
    rates = np.array([job.order.lr if job.order.lr_known else np.nan for job in jobs])
    if np.isnan(rates).any():
        return None
    return float(rates[0]) if all_equal(rates) else rates
