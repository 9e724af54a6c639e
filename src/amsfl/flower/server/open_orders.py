"""Orders under way: who works on what, what has arrived, and when the server moves.

One loop for every round end (clock/round_end.py), with real clients saying when they arrive. A client has one
order at a time, and the model that it began from is kept until its reply is in. What was under way when a
server died is asked for again by the one that goes on.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
from flwr.app import MessageType

from amsfl import protocol
from amsfl.clock import RoundEnd, Waiting, results_taken
from amsfl.clock.round_end import UNGROUPED
from amsfl.flower import messages
from amsfl.flower.server import clients, round_results
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.reply_checks import accept, oversized, steps_not_done
from amsfl.flower.server.round_results import ArrivedReply, DroppedWork, OpenOrder, RoundResults
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.transport import LOOK_AROUND, Arrival, Transport
from amsfl.planning.planner import Decision, Planner
from amsfl.simulation import ServeConfig

FILL_STREAM = 0xC1  # of random numbers: who fills single places


class OpenOrders:
    """Dispatches orders, takes in replies, and asks the round end when there are enough."""

    def __init__(
        self,
        config: ServeConfig,
        orders: OrderWriter,
        transport: Transport,
        registration: Registration,
        end: RoundEnd,
        apart: bool,
    ):
        self.config, self.orders, self.transport, self.registration = config, orders, transport, registration
        self.end = end
        self.apart = apart and end.overlap  # each client is planned by what its own seconds are worth
        self.drops_late = end.late == "drop" or end.waits_for_all
        self.jobs: dict[int, OpenOrder] = {}  # by client
        self.arrived: list[ArrivedReply] = []
        self.dropped: list[DroppedWork] = []  # since the last move
        self.accepted: dict[int, int] = {}  # the last order of each client whose reply was good
        self.absent: set[int] = set()  # clients under way that are not connected
        self.planned: list[tuple[int, int]] = []  # clients and steps of this round's orders
        self.started, self.asked = 0.0, 0.0  # when the round began; when it was last begun again
        self.invited, self.fillings, self.bytes_down = -1, 0, 0.0
        self.limit = inf  # seconds that stragglers are waited for
        self.plan_seconds = 0.0  # that the plan gives those who were invited last
        self.predicted: float | None = None  # the same; None where somebody's speed is unknown
        registration.take_reply = self.receive

    def wait(self, state: ServerState, planner: Planner, began: float) -> RoundResults | None:
        """Until the server moves; None when nobody is connected, or nothing good came of the orders."""
        since, asked = self.transport.now(), bool(self.jobs)
        while True:
            free = self.registration.admit(state.clients, LOOK_AROUND if self.jobs else 0.0)
            self._look_for_absent()
            # who arrives while the server moves does not end a round that nobody was invited to
            taken = self._take(state) if self.end.overlap or self.invited == state.round else []
            if taken:
                return self._results(state, taken, began)
            if not self.arrived and ((asked and not self.jobs) or self._given_up()):
                return self._nothing(state, began)
            if self.invited != state.round or self.end.overlap or not self.jobs:
                self.dispatch(state, planner, free)
                asked = asked or bool(self.jobs)
            waited = self.transport.now() - since > self.config.patience
            if not self.arrived and (not self.jobs or waited):
                return self._nothing(state, began)
            self.transport.sleep(self.config.poll)

    def receive(self, arrival: Arrival) -> bool:
        """A reply to an order; whether it is one that the server waits for."""
        order = arrival.sent.order
        job = None if order is None else self.jobs.get(order.client)
        if order is None or job is None or job.order is not order:
            return False
        del self.jobs[order.client]
        verdict = accept(self.orders.method, order, job.model, arrival)
        if isinstance(verdict, str):
            self.registration.refuse(order.client, verdict, steps_not_done(order, verdict))
            self._drop(job)
        else:
            self.arrived.append(ArrivedReply(job, verdict._replace(began=job.model.anchor)))
            self.accepted[order.client] = order.round
        return True

    def refuse(self, who: int, why: str) -> None:
        """A reply that was accepted by itself: its client goes on from the work that was taken before."""
        self.accepted.pop(who, None)
        self.registration.refuse(who, why)

    def dispatch(self, state: ServerState, planner: Planner, free: set[int]) -> None:
        """Orders for those who are connected and idle, at the places that are free."""
        if self.invited != state.round:
            self.started, self.asked, self.invited = self.transport.now(), self.transport.now(), state.round
            self.predicted, self.plan_seconds, self.planned = None, 0.0, []
        if not self.jobs and not self.arrived:  # nothing came of the orders before: these get all their time
            self.asked = self.transport.now()
        cohort = self._draw(state, self.orders.able(state, free))
        if not len(cohort):
            return
        expected, limits = self.orders.expected(state), list[float]()
        for some in [[each] for each in cohort] if self.apart else [cohort]:
            group = np.array(some, int)
            decision = planner.decide(state.memory, state.round, group, expected)
            foreseen = self.orders.foreseen(state, decision, group, expected)
            limit = self.orders.deadline(foreseen, state.round)
            decision, seconds = self.orders.fitted(state, decision, group, expected, limit)
            alone = expected.step_seconds[group] * decision.steps + expected.comm_seconds[group]
            more = {"predicted_client_seconds": alone.tolist()}
            self._send(state, group, decision._replace(explain=decision.explain | more), seconds, limit)
            limits.append(limit)
            self.plan_seconds = max(self.plan_seconds, float(decision.predicted_seconds))
            if all(state.measured.step[who] for who in group):
                self.predicted = min(self.plan_seconds, limit)  # a client's word may be part of the plan
        self.limit = max(limits)

    def _send(
        self, state: ServerState, cohort: Any, decision: Decision, seconds: Sequence[float], limit: float
    ) -> None:
        orders = [
            self._order(state, int(who), int(steps), most, decision)
            for who, steps, most in zip(cohort, decision.steps, seconds, strict=True)
        ]
        model, now = state.model, self.transport.now()
        letters = []
        needs = self.orders.needs_direction(state, orders)
        judge, everyone = state.memory.judge, len(state.clients)
        correction = protocol.corrects(self.orders.method, judge, state.round, everyone, needs)
        correction &= state.corrects_well
        for direction in sorted({*needs}):
            some = [order for order, each in zip(orders, needs, strict=True) if each == direction]
            sent = self.orders.sent(model, direction, correction)
            packed = zip(some, messages.pack_orders(some, sent), strict=True)
            letters += [(state.clients[order.client].node, order, content) for order, content in packed]
            self.bytes_down += 4.0 * (sent.anchor.size + sent.server.size + sent.direction.size) * len(some)
        self.transport.send(MessageType.TRAIN, letters, self.orders.lifetime(limit))
        lists = {
            key: value
            for key, value in decision.explain.items()
            if isinstance(value, list) and len(value) == len(orders)
        }
        shared = {key: value for key, value in decision.explain.items() if key not in lists}
        shared |= {"correction": 1.0} if correction else {}
        for nth, order in enumerate(orders):
            own = {key: value[nth] for key, value in lists.items()}
            node = state.clients[order.client].node
            self.jobs[order.client] = OpenOrder(order, node, model, state.round, own, shared, now)
            self.planned.append((order.client, order.steps))
        self.fillings += 1

    def _order(
        self, state: ServerState, who: int, steps: int, seconds: float, decision: Decision
    ) -> messages.Order:
        """With a number that no accepted work of this client had: it seeds the minibatches."""
        accepted = max(state.clients[who].accepted, self.accepted.get(who, -1))
        order = self.orders.order(state, who, steps, seconds, decision)
        return order._replace(round=max(state.round, accepted + 1), accepted=accepted)

    def _draw(self, state: ServerState, free: set[int]) -> Any:
        """Idle clients for the places that are free; a whole cohort as in simulation."""
        config, privacy = self.config, self.orders.privacy
        if privacy.clients:
            return privacy.draw_cohort(state, free)
        # a rule counts results: a client has one in a move, and waits for it, unless nobody else is here
        waiting = {each.reply.client for each in self.arrived} if self.orders.method.combine else set[int]()
        others = free - {state.clients[who].node for who in waiting}
        if not self.jobs:
            return clients.draw(state.clients, others or free, config.cohort, config.seed, state.round)
        idle = [
            who for who, client in enumerate(state.clients) if client.node in others and who not in self.jobs
        ]
        places = max((config.cohort or len(state.clients)) - len(self.jobs) - len(waiting), 0)
        if places >= len(idle):
            return np.array(idle, int)
        rng = np.random.default_rng([config.seed, self.fillings, FILL_STREAM])
        return np.sort(rng.choice(idle, places, replace=False))

    def _take(self, state: ServerState) -> list[ArrivedReply]:
        """What the server moves with now: of replies out of all proportion nothing."""
        at_work = len(self.jobs) - len(self.absent)
        arrived, expected = (np.full(count, UNGROUPED) for count in (len(self.arrived), at_work))
        waiting = Waiting(self.asked, self.predicted)
        flags = results_taken(self.end, waiting, arrived, expected, self.transport.now())
        count = int(np.count_nonzero(flags)) or (len(self.arrived) if self._given_up() else 0)
        some, self.arrived = self.arrived[:count], self.arrived[count:]
        # whether one counts must not go by the others where whole clients are private; they are cut anyway
        limit = inf if self.orders.privacy.clients else self.config.norm_limit
        replies, others = [each.reply for each in some], len(state.clients) > 1
        wild = oversized(replies, state.model, state.sizes, limit, others)
        for each in [each for each in some if each.reply.client in wild]:
            self.refuse(each.reply.client, wild[each.reply.client])
            self._drop(each.job)
        good = [each for each in some if each.reply.client not in wild]
        if self.end.overlap and wild:  # those that are left wait for others
            self.arrived = [*good, *self.arrived]
            return []
        return sorted(good, key=lambda each: (each.reply.client, each.job.order.round))

    def _given_up(self) -> bool:
        """Whether stragglers were waited for long enough, where the round end itself has no deadline."""
        endless = not self.end.overlap and self.end.deadline(self.asked, self.predicted) is None
        return endless and bool(self.jobs) and self.transport.now() - self.asked >= self.limit

    def _look_for_absent(self) -> None:
        """Who is not connected is not waited for; its reply still counts if it returns in time."""
        here = self.transport.nodes(LOOK_AROUND) if self.jobs else set()
        self.absent = {who for who, job in self.jobs.items() if job.node not in here}
        if self.end.overlap or (len(self.absent) == len(self.jobs) and not self.arrived):
            self._drop_absent()

    def _drop_absent(self) -> None:
        self._give_up_on(self.absent, "gone")
        self.absent = set()

    def _give_up_on(self, some: Iterable[int], why: str) -> None:
        """Clients that are still under way: their replies will be refused."""
        for job in [self.jobs.pop(who) for who in [*some]]:
            waited = self.transport.now() - job.sent_at
            self.registration.refuse(job.order.client, f"{why}: no reply within {waited:.1f} s")
            self._drop(job)

    def _drop(self, job: OpenOrder) -> None:
        work = DroppedWork(job.order.client, job.sent_at, self.transport.now(), job.order.steps)
        self.dropped.append(work)

    def _nothing(self, state: ServerState, began: float) -> RoundResults | None:
        """Nobody's work: no round, but where whole clients are private, since that is a secret then."""
        if self._given_up():
            self._give_up_on(self.jobs, "late")
        return self._results(state, [], began) if self.orders.privacy.clients else None

    def _results(self, state: ServerState, taken: Sequence[ArrivedReply], began: float) -> RoundResults:
        """As a round's record has it; seconds count from the run's beginning."""
        self._drop_absent()
        if self.drops_late:
            self._give_up_on(self.jobs, "late")
        results = round_results.collect(self, state, taken, began)
        self.dropped, self.bytes_down = [], 0.0
        return results
