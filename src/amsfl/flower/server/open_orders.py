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
from amsfl.clock import Waiting, client_seconds, results_taken
from amsfl.clock.round_end import UNGROUPED
from amsfl.flower import messages
from amsfl.flower.server import clients, costs
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.reply_checks import FAILED, AcceptedReply, OpenOrder, accept, oversized
from amsfl.flower.server.round_results import DroppedWork, RoundResults
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.transport import LOOK_AROUND, Arrival
from amsfl.planning.planner import Decision, Planner
from amsfl.simulation.event_queue import rate_of

FILL_STREAM = 0xC1  # of random numbers: who fills single places


class OpenOrders:
    """Dispatches orders, takes in replies, and asks the round end when there are enough."""

    def __init__(self, orders: OrderWriter, registration: Registration):
        self.orders, self.registration, self.transport = orders, registration, registration.transport
        self.config, self.end = orders.config, orders.end
        self.apart = orders.policy.readings and self.end.overlap  # each client has a plan of its own
        self.drops_late = self.end.late == "drop" or self.end.waits_for_all
        self.jobs: dict[int, OpenOrder] = {}  # by client
        self.arrived: list[AcceptedReply] = []
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
            free = self.registration.admit(state, LOOK_AROUND if self.jobs else 0.0)
            # who is not connected is not waited for; its reply still counts if it returns in time
            here = self.transport.nodes(LOOK_AROUND) if self.jobs else set()
            self.absent = {who for who, job in self.jobs.items() if job.node not in here}
            if self.end.overlap or (len(self.absent) == len(self.jobs) and not self.arrived):
                self._give_up_on(self.absent, "gone")
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

    def receive(self, state: ServerState, arrival: Arrival) -> bool:
        """A reply to an order; whether it is one that the server waits for."""
        order = arrival.sent.order
        job = None if order is None else self.jobs.get(order.client)
        if order is None or job is None or job.order is not order:
            return False
        del self.jobs[order.client]
        verdict = accept(self.orders.method, job, arrival)
        if isinstance(verdict, str):
            if verdict.startswith(FAILED):  # what was not done, by its own word, told nothing
                state.ordered_steps[order.client] -= order.steps
            self.registration.refuse(order.client, verdict)
            self._drop(job)
        else:
            self.arrived.append(verdict)
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
        expected, limits = costs.costs(state.measured), list[float]()
        expected = expected._replace(accounts=self.orders.accounts)
        for some in [[each] for each in cohort] if self.apart else [cohort]:
            group = np.array(some, int)
            decision = planner.decide(state.memory, state.round, group, expected)
            foreseen = self.orders.foreseen(state, decision, group, expected)
            limit = self.orders.deadline(foreseen, state.round)
            decision, seconds = self.orders.fitted(state, decision, group, expected, limit)
            alone = client_seconds(expected, group, decision.steps).tolist()
            explain = decision.explain | {"predicted_client_seconds": alone}
            self._send(state, group, decision._replace(explain=explain), seconds, limit)
            limits.append(limit)
            self.plan_seconds = max(self.plan_seconds, float(decision.predicted_seconds))
            if all(state.measured.step[who] for who in group):
                self.predicted = min(self.plan_seconds, limit)  # a client's word may be part of the plan
        self.limit = max(limits)

    def _send(
        self, state: ServerState, cohort: Any, decision: Decision, seconds: Sequence[float], limit: float
    ) -> None:
        orders, letters, model, now = list[messages.Order](), [], state.model, self.transport.now()
        for who, steps, most in zip(cohort.tolist(), decision.steps.tolist(), seconds, strict=True):
            order = self.orders.order(state, who, int(steps), most, decision)
            # with a number that no accepted work of this client had: it seeds the minibatches
            accepted = max(order.accepted, self.accepted.get(who, -1))
            orders.append(order._replace(round=max(state.round, accepted + 1), accepted=accepted))
        needs = self.orders.needs_direction(state, orders)
        method, judge, everyone = self.orders.method, state.memory.judge, len(state.clients)
        correction = protocol.corrects(method, judge, state.round, everyone, needs) and state.corrects_well
        # the server's state travels where clients work with it, the last global step to those who need it
        nothing, works = model.anchor[:0], correction or method.arithmetic.second is None
        server = protocol.sent_state(method, model.server, model.anchor) if works else nothing
        for direction in sorted({*needs}):
            some = [order for order, each in zip(orders, needs, strict=True) if each == direction]
            sent = model._replace(server=server, direction=model.direction if direction else nothing)
            packed = zip(some, messages.pack_orders(some, sent), strict=True)
            letters += [(state.clients[order.client].node, order, content) for order, content in packed]
            self.bytes_down += 4.0 * (sent.anchor.size + sent.server.size + sent.direction.size) * len(some)
        self.transport.send(MessageType.TRAIN, letters, self.orders.lifetime(limit))
        why = decision.explain
        lists = [key for key, each in why.items() if isinstance(each, list) and len(each) == len(orders)]
        shared = {key: value for key, value in why.items() if key not in lists}
        shared |= {"correction": 1.0} if correction else {}
        for nth, order in enumerate(orders):
            own, node = {key: why[key][nth] for key in lists}, state.clients[order.client].node
            self.jobs[order.client] = OpenOrder(order, model, node, state.round, now, own, shared)
            self.planned.append((order.client, order.steps))
        self.fillings += 1

    def _draw(self, state: ServerState, free: set[int]) -> Any:
        """Idle clients for the places that are free; a whole cohort as in simulation."""
        config, privacy = self.config, self.orders.privacy
        if privacy.clients:
            return privacy.draw_cohort(state, free)
        # a rule counts results: a client has one in a move, and waits for it, unless nobody else is here
        waiting = {each.client for each in self.arrived} if self.orders.method.combine else set[int]()
        others = free - {state.clients[who].node for who in waiting}
        if not self.jobs:
            return clients.draw(state.clients, others or free, config.cohort, config.seed, state.round)
        here = [who for who, client in enumerate(state.clients) if client.node in others]
        idle = [who for who in here if who not in self.jobs]
        places = max((config.cohort or len(state.clients)) - len(self.jobs) - len(waiting), 0)
        if places >= len(idle):
            return np.array(idle, int)
        rng = np.random.default_rng([config.seed, self.fillings, FILL_STREAM])
        return np.sort(rng.choice(idle, places, replace=False))

    def _take(self, state: ServerState) -> list[AcceptedReply]:
        """What the server moves with now: of replies out of all proportion nothing."""
        at_work = len(self.jobs) - len(self.absent)
        arrived, expected = (np.full(count, UNGROUPED) for count in (len(self.arrived), at_work))
        waiting = Waiting(self.asked, self.predicted)
        flags = results_taken(self.end, waiting, arrived, expected, self.transport.now())
        count = int(np.count_nonzero(flags)) or (len(self.arrived) if self._given_up() else 0)
        some, self.arrived = self.arrived[:count], self.arrived[count:]
        # whether one counts must not go by the others where whole clients are private; they are cut anyway
        limit = inf if self.orders.privacy.clients else self.config.norm_limit
        wild = oversized(some, state.model, state.sizes, limit, len(state.clients) > 1)
        for each in [each for each in some if each.client in wild]:
            self.refuse(each.client, wild[each.client])
            self._drop(each.job)
        good = [each for each in some if each.client not in wild]
        if self.end.overlap and wild:  # those that are left wait for others
            self.arrived = [*good, *self.arrived]
            return []
        return sorted(good, key=lambda each: (each.client, each.job.order.round))

    def _given_up(self) -> bool:
        """Whether stragglers were waited for long enough, where the round end itself has no deadline."""
        endless = not self.end.overlap and self.end.deadline(self.asked, self.predicted) is None
        return endless and bool(self.jobs) and self.transport.now() - self.asked >= self.limit

    def _give_up_on(self, some: Iterable[int], why: str) -> None:
        """Clients that are still under way: their replies will be refused."""
        given_up = [*some]
        self.absent -= {*given_up}
        for job in [self.jobs.pop(who) for who in given_up]:
            waited = self.transport.now() - job.sent_at
            self.registration.refuse(job.order.client, f"{why}: no reply within {waited:.1f} s")
            self._drop(job)

    def _drop(self, job: OpenOrder) -> None:
        self.dropped.append(DroppedWork(job.order.client, job.sent_at, self.transport.now(), job.order.steps))

    def _nothing(self, state: ServerState, began: float) -> RoundResults | None:
        """Nobody's work: no round, but where whole clients are private, since that is a secret then."""
        if self._given_up():
            self._give_up_on(self.jobs, "late")
        return self._results(state, [], began) if self.orders.privacy.clients else None

    def _results(self, state: ServerState, taken: Sequence[AcceptedReply], began: float) -> RoundResults:
        """With a timeline where clients do not wait for each other, in seconds since the run `began`."""
        self._give_up_on(self.absent, "gone")
        if self.drops_late:
            self._give_up_on(self.jobs, "late")
        dropped, now = self.dropped, self.transport.now()
        explain, timeline = dict[str, Any](), dict[str, Any]()
        replies = [each._replace(age=state.round - each.job.version) for each in taken]
        jobs = [each.job for each in taken]
        if jobs:
            explain = jobs[-1].shared | {key: [job.own[key] for job in jobs] for key in jobs[-1].own}
        if self.end.waits_for_all:
            over = now if dropped or not replies else max(item.arrived_at for item in replies)
            seconds, plan_seconds = over - self.started, self.plan_seconds
            if len(replies) < len(self.planned):
                cohort, steps = (list(column) for column in zip(*self.planned, strict=True))
                explain["planned"] = {"cohort": cohort, "steps": steps}
        else:
            seconds = plan_seconds = now - began - state.seconds["makespan"]
            timeline = {
                "staleness": [item.age for item in replies],
                "started": [job.sent_at - began for job in jobs],
                "arrived": [item.arrived_at - began for item in replies],
                "dropped": [[each.client, each.begin - began, each.end - began] for each in dropped],
            }
        ordered = np.array([job.order.steps for job in jobs])
        rates = np.array([np.nan if item.lr is None else item.lr for item in replies])
        decision = Decision(ordered, rate_of(rates) if jobs else self.config.lr, plan_seconds, explain)
        results = RoundResults(decision, replies, self.bytes_down, seconds, timeline, dropped)
        self.dropped, self.bytes_down = [], 0.0
        return results
