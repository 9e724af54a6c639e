"""One exchange of a round: orders out, replies in, and of those the ones that pass every check."""

from math import inf
from typing import Any, NamedTuple

from flwr.app import MessageType

from amsfl import protocol
from amsfl.clock import Costs
from amsfl.flower import messages
from amsfl.flower.server import late_replies
from amsfl.flower.server.orders import OrderWriter, predicted
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.replies import AcceptedReply, judge, oversized, undone
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.transport import Transport
from amsfl.planning.planner import Decision
from amsfl.simulation import ServeConfig


class Came(NamedTuple):
    """What a round brought."""

    decision: Decision  # the plan as it was ordered
    model: messages.GlobalModel  # what it makes the next one from
    cohort: Any  # who was asked, and the places in it of those whose work is good
    kept: list[int]
    good: list[AcceptedReply]  # in seat order
    bytes_down: float
    seconds: float  # from the orders to the last reply, or to the end of waiting
    timeline: dict[str, Any] = {}  # noqa: RUF012 (nobody changes it); where rounds overlap, see landed.py
    lost: list[tuple[int, int]] = []  # noqa: RUF012 (the same); clients, steps of work that came to nothing


class Out(NamedTuple):
    """Orders that are out."""

    decision: Decision  # the plan as it was ordered
    model: messages.GlobalModel
    cohort: Any
    orders: list[messages.Order]
    ids: set[str]
    deadline: float
    pushed: float  # when
    bytes_down: float


class Exchange:
    """Plans go out as orders and come back as replies."""

    def __init__(
        self, config: ServeConfig, orders: OrderWriter, transport: Transport, registration: Registration
    ):
        self.config, self.orders, self.transport, self.registration = config, orders, transport, registration

    def send(self, state: ServerState, planned: Decision, cohort: Any, expected: Costs) -> Out:
        decision = predicted(planned, cohort, expected)
        model = messages.GlobalModel(state.anchor, state.server, state.step, state.buffers)
        known = any(client.accepted >= 0 for client in state.clients)  # some compile in their first round
        deadline = self.orders.deadline(float(decision.predicted_seconds) if known else None, state.round)
        decision, within = self.orders.fitted(state, decision, cohort, expected, deadline)
        orders = [
            self.orders.order(state, int(who), int(steps), seconds, decision.lr)
            for who, steps, seconds in zip(cohort, decision.steps, within, strict=True)
        ]
        pushed = self.transport.now()
        sent = self.orders.sent(model)
        packed = zip(orders, messages.pack_orders(orders, sent), strict=True)
        letters = [(state.clients[order.client].node, order, content) for order, content in packed]
        ids = self.transport.send(MessageType.TRAIN, letters, self.orders.lifetime(deadline))
        down = 4.0 * (sent.anchor.size + sent.server.size + sent.direction.size) * len(cohort)
        return Out(decision, model, cohort, orders, ids, deadline, pushed, down)

    def hear(self, state: ServerState, out: Out) -> Came:
        good = self._collect(state, out)
        self.hear_late(state)
        # a full round ends with its last reply, one that somebody missed when the server stopped waiting
        full = good and len(good) == len(out.cohort)
        over = max(item.at for item in good) if full else self.transport.now()
        kept = [list(out.cohort).index(item.place) for item in good]
        asked = zip(out.cohort, out.decision.steps, strict=True)
        lost = [(int(who), int(steps)) for n, (who, steps) in enumerate(asked) if n not in kept]
        spent = over - out.pushed
        return Came(out.decision, out.model, out.cohort, kept, good, out.bytes_down, spent, {}, lost)

    def _collect(self, state: ServerState, out: Out) -> list[AcceptedReply]:
        """Replies of this round that pass every check, in seat order."""
        found: list[AcceptedReply] = []
        ids, model, ours = out.ids, out.model, {id(order) for order in out.orders}
        wanted = protocol.empty_parts(self.orders.method, model.anchor.size)
        for arrival in self.transport.collect(ids, out.deadline):
            order = arrival.sent.order
            if order is None or id(order) not in ours:
                self.registration.stray(state.clients, arrival)
                continue
            verdict = judge(self.orders.method, order, model, arrival, wanted)
            if isinstance(verdict, str):
                self.registration.refuse(order.client, verdict, undone(order, verdict))
            else:
                found.append(verdict)
        self._missing(ids)
        # whether one counts must not go by the others where whole clients are private; they are cut anyway
        limit = inf if self.orders.method.private_clients else self.config.norm_limit
        wild = oversized(found, model, state.sizes, limit)
        for place, why in wild.items():
            self.registration.refuse(place, why)
        return sorted((item for item in found if item.place not in wild), key=lambda item: item.place)

    def _missing(self, ids: set[str]) -> None:
        """Whoever owes this round an answer, and why there is none."""
        owing = [self.transport.waiting[key] for key in ids & self.transport.waiting.keys()]
        here = self.transport.nodes() if owing else set()
        for sent in owing:
            assert sent.order is not None
            gone = "gone" if sent.node not in here else "late"
            self.registration.refuse(
                sent.order.client, f"{gone}: no reply within {self.transport.now() - sent.at:.1f} s"
            )

    def hear_late(self, state: ServerState) -> None:
        """What late replies say of their clients' costs: who was late is planned to make it."""
        for arrival in self.registration.late:
            state.measured = late_replies.learn(state.measured, arrival, self.config.poll)
        self.registration.late = []
