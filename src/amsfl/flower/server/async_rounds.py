"""Rounds that do not wait for all: who is under way, what has come, and when the server moves.

The same queue as in simulation (simulation/event_queue.py), but real clients say when they come. A client
has one order at a time, and the model that it began from is kept until its reply is in. What was under way
when a server died is asked for again by the one that goes on.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from flwr.app import MessageType

from amsfl.clock import RoundEnd, Waiting, results_taken
from amsfl.clock.round_end import UNGROUPED
from amsfl.flower import messages
from amsfl.flower.server import clients
from amsfl.flower.server.jobs import Job, Landed, Lost, came
from amsfl.flower.server.orders import OrderWriter, predicted
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.replies import judge, oversized, undone
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.sync_round import Came
from amsfl.flower.server.transport import Arrival, Transport
from amsfl.planning.planner import Decision, Planner
from amsfl.schedule import Policy
from amsfl.simulation import ServeConfig

DRAWS = 0xC1  # the stream that single places are filled from


class Aloft:
    """Invites clients, takes what they bring, and says when there is enough of it."""

    def __init__(
        self,
        config: ServeConfig,
        orders: OrderWriter,
        transport: Transport,
        registration: Registration,
        end: RoundEnd,
        policy: Policy,
    ):
        self.config, self.orders, self.transport, self.registration, self.end = (
            config,
            orders,
            transport,
            registration,
            end,
        )
        self.apart = end.overlap and policy.readings  # each by what its own seconds are worth
        self.jobs: dict[int, Job] = {}  # by client
        self.landed: list[Landed] = []
        self.dropped: list[Lost] = []  # work of no use
        self.numbers: dict[int, int] = {}  # the last order of each client: no minibatch is drawn twice
        self.accepted: dict[int, int] = {}  # the last one whose reply was good: its state goes on from there
        self.opened, self.invited, self.groups, self.down = 0.0, -1, 0, 0.0
        self.limit = math.inf  # seconds that stragglers are waited for
        self.predicted: float | None = None  # seconds that the plan gives those who were invited last
        registration.landing = self.land

    def round(self, state: ServerState, planner: Planner, began: float) -> Came | None:
        """Until the server moves; None when nobody is there, or nothing good came for too long."""
        since = self.transport.now()
        while True:
            free = self.orders.privacy.able(state, self.registration.meet(state.clients))
            self._lost()
            # who came while the server moved does not end a round that nobody was invited to
            asked = self.end.overlap or self.invited == state.round
            taken = self._taken(state, self._due()) if asked else []
            if taken:
                return self._came(state, taken, began)
            if self.invited != state.round or self.end.overlap or not self.jobs:
                self._invite(state, planner, free)
            waited = self.transport.now() - since > self.config.patience
            if not (self.jobs or self.landed) or (waited and not self.landed):
                return None
            self.transport.sleep(self.config.poll)

    def land(self, arrival: Arrival) -> bool:
        """A reply; whether it is one that somebody waits for."""
        order = arrival.sent.order
        job = None if order is None else self.jobs.get(order.client)
        if job is None or job.order is not order:
            return False
        del self.jobs[order.client]
        verdict = judge(self.orders.method, order, job.model, arrival)
        if isinstance(verdict, str):
            self.registration.refuse(order.client, verdict, undone(order, verdict))
            self.dropped.append(Lost(order.client, job.at, self.transport.now(), order.steps))
        else:
            self.landed.append(Landed(job, verdict))
            self.accepted[order.client] = order.round
        return True

    def _lost(self) -> None:
        """Whoever left while it was under way."""
        here = self.transport.nodes() if self.jobs else set()
        for who, job in [(who, job) for who, job in self.jobs.items() if job.node not in here]:
            del self.jobs[who]
            self.registration.refuse(who, f"gone: no reply within {self.transport.now() - job.at:.1f} s")
            self.dropped.append(Lost(who, job.at, self.transport.now(), job.order.steps))

    def _due(self) -> int:
        """How many of the results that have arrived the server takes now."""
        now, waiting = self.transport.now(), Waiting(self.opened, self.predicted)
        arrived, expected = (np.full(len(each), UNGROUPED) for each in (self.landed, self.jobs))
        endless = not self.end.overlap and self.end.deadline(self.opened, self.predicted) is None
        if endless and now - self.opened >= self.limit:  # the others are given up
            return len(self.landed)
        return int(np.count_nonzero(results_taken(self.end, waiting, arrived, expected, now)))

    def _taken(self, state: ServerState, count: int) -> list[Landed]:
        """What the server moves with: of replies out of all proportion nothing."""
        some, self.landed = self.landed[:count], self.landed[count:]
        now = messages.GlobalModel(state.anchor, state.server, state.step, state.buffers)
        wild = oversized([each.good for each in some], now, state.sizes, self.config.norm_limit)
        for who, why in wild.items():
            self.registration.refuse(who, why)
        for each in [each for each in some if each.good.place in wild]:
            self.dropped.append(Lost(each.good.place, each.job.at, each.good.at, each.good.reply.steps))
        good = [each for each in some if each.good.place not in wild]
        if self.end.overlap and wild:  # those that are left wait for others
            self.landed = [*good, *self.landed]
            return []
        return sorted(good, key=lambda each: (each.good.place, each.job.order.round))

    def _invite(self, state: ServerState, planner: Planner, free: set[int]) -> None:
        """Orders for those who are there and idle, at the places that are free."""
        if self.invited != state.round:
            self.opened, self.invited = self.transport.now(), state.round
        model = messages.GlobalModel(state.anchor, state.server, state.step, state.buffers)
        who = self._drawn(state, free)
        expected = self.orders.expected(state)
        limits = list[float]()
        for some in ([[each] for each in who] if self.apart else [who]) if len(who) else []:
            cohort = np.array(some, int)
            planned = predicted(planner.decide(state.memory, state.round, cohort, expected), cohort, expected)
            known = any(state.measured.rest)
            limit = self.orders.deadline(float(planned.predicted_seconds) if known else None, state.round)
            decision, within = self.orders.fitted(state, planned, cohort, expected, limit)
            self._send(state, cohort, decision, within, model, limit)
            limits.append(limit)
            self.predicted = float(decision.predicted_seconds) if known else None
        self.limit = max(limits, default=self.limit)

    def _send(
        self,
        state: ServerState,
        cohort: Any,
        decision: Decision,
        within: list[float],
        model: messages.GlobalModel,
        limit: float,
    ) -> None:
        orders = [
            self._order(state, int(who), int(steps), seconds, decision.lr)
            for who, steps, seconds in zip(cohort, decision.steps, within, strict=True)
        ]
        sent, at = self.orders.sent(model), self.transport.now()
        packed = zip(orders, messages.pack_orders(orders, sent), strict=True)
        letters = [(state.clients[order.client].node, order, content) for order, content in packed]
        self.transport.send(MessageType.TRAIN, letters, self.orders.lifetime(limit))
        for nth, order in enumerate(orders):
            lists = {key: value for key, value in decision.explain.items() if isinstance(value, list)}
            shared = {key: value for key, value in decision.explain.items() if key not in lists}
            own = {key: value[nth] for key, value in lists.items()}
            node = state.clients[order.client].node
            self.jobs[order.client] = Job(order, node, model, state.round, own, shared, at)
        self.groups += 1
        self.down += 4.0 * (sent.anchor.size + sent.server.size + sent.direction.size) * len(orders)

    def _order(
        self, state: ServerState, who: int, steps: int, within: float, lr: float | None
    ) -> messages.Order:
        """With a number of its own, which seeds its minibatches: the server's moves so far, or more."""
        number = max(state.round, self.numbers.get(who, state.clients[who].accepted) + 1)
        self.numbers[who] = number
        accepted = max(state.clients[who].accepted, self.accepted.get(who, -1))
        order = self.orders.order(state, who, steps, within, lr)
        return order._replace(round=number, accepted=accepted)

    def _drawn(self, state: ServerState, free: set[int]) -> Any:
        """Idle clients for the places that are free; a whole cohort as in simulation."""
        config = self.config
        idle = [
            place
            for place, client in enumerate(state.clients)
            if client.node in free and place not in self.jobs
        ]
        if not self.jobs:
            return clients.draw(state.clients, free, config.cohort, config.seed, state.round)
        places = (config.cohort or len(state.clients)) - len(self.jobs)
        if places >= len(idle):
            return np.array(idle, int)
        rng = np.random.default_rng([config.seed, self.groups, DRAWS])
        return np.sort(rng.choice(idle, places, replace=False))

    def _came(self, state: ServerState, taken: list[Landed], began: float) -> Came:
        moved = self.transport.now()
        lost = [*self.dropped, *self._left_behind(moved)]
        down, self.down, self.dropped = self.down, 0.0, []
        return came(state, taken, lost, moved, began, down)

    def _left_behind(self, moved: float) -> Iterator[Lost]:
        """Under `late: drop`, all who are still under way: their replies will be refused."""
        if self.end.late != "drop":
            return
        for who, job in self.jobs.items():
            self.registration.refuse(who, f"late: no reply within {moved - job.at:.1f} s")
            yield Lost(who, job.at, moved, job.order.steps)
        self.jobs.clear()
