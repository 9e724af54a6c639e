"""One exchange of a round: orders out, replies in, and of those the ones that pass every check."""

from math import inf
from typing import Any, NamedTuple

from flwr.app import MessageType

from amsfl import protocol
from amsfl.clock import Costs
from amsfl.flower import messages
from amsfl.flower.server import late_replies
from amsfl.flower.server.orders import Desk, predicted
from amsfl.flower.server.registration import Door
from amsfl.flower.server.replies import Good, judge, oversized, undone
from amsfl.flower.server.state import Progress
from amsfl.flower.server.transport import Post
from amsfl.planning.planner import Decision
from amsfl.simulation import ServeConfig


class Came(NamedTuple):
    """What a round brought."""

    decision: Decision  # the plan as it was ordered
    model: messages.Model  # what it makes the next one from
    cohort: Any  # who was asked, and the places in it of those whose work is good
    kept: list[int]
    good: list[Good]  # in seat order
    bytes_down: float
    seconds: float  # from the orders to the last reply, or to the end of waiting
    timeline: dict[str, Any] = {}  # noqa: RUF012 (nobody changes it); where rounds overlap, see landed.py
    lost: list[tuple[int, int]] = []  # noqa: RUF012 (the same); clients, steps of work that came to nothing


class Out(NamedTuple):
    """Orders that are out."""

    decision: Decision  # the plan as it was ordered
    model: messages.Model
    cohort: Any
    orders: list[messages.Order]
    ids: set[str]
    deadline: float
    pushed: float  # when
    bytes_down: float


class Exchange:
    """Plans go out as orders and come back as replies."""

    def __init__(self, config: ServeConfig, desk: Desk, post: Post, door: Door):
        self.config, self.desk, self.post, self.door = config, desk, post, door

    def send(self, stand: Progress, planned: Decision, cohort: Any, expected: Costs) -> Out:
        decision = predicted(planned, cohort, expected)
        model = messages.Model(stand.anchor, stand.server, stand.step, stand.buffers)
        known = any(seat.accepted >= 0 for seat in stand.seats)  # some compile in their first round
        deadline = self.desk.deadline(float(decision.predicted_seconds) if known else None, stand.round)
        decision, within = self.desk.fitted(stand, decision, cohort, expected, deadline)
        orders = [
            self.desk.order(stand, int(who), int(steps), seconds, decision.lr)
            for who, steps, seconds in zip(cohort, decision.steps, within, strict=True)
        ]
        pushed = self.post.now()
        sent = self.desk.sent(model)
        packed = zip(orders, messages.pack_orders(orders, sent), strict=True)
        letters = [(stand.seats[order.client].node, order, content) for order, content in packed]
        ids = self.post.send(MessageType.TRAIN, letters, self.desk.lifetime(deadline))
        down = 4.0 * (sent.anchor.size + sent.server.size + sent.direction.size) * len(cohort)
        return Out(decision, model, cohort, orders, ids, deadline, pushed, down)

    def hear(self, stand: Progress, out: Out) -> Came:
        good = self._collect(stand, out)
        self.hear_late(stand)
        # a full round ends with its last reply, one that somebody missed when the server stopped waiting
        full = good and len(good) == len(out.cohort)
        over = max(item.at for item in good) if full else self.post.now()
        kept = [list(out.cohort).index(item.place) for item in good]
        asked = zip(out.cohort, out.decision.steps, strict=True)
        lost = [(int(who), int(steps)) for n, (who, steps) in enumerate(asked) if n not in kept]
        spent = over - out.pushed
        return Came(out.decision, out.model, out.cohort, kept, good, out.bytes_down, spent, {}, lost)

    def _collect(self, stand: Progress, out: Out) -> list[Good]:
        """Replies of this round that pass every check, in seat order."""
        found: list[Good] = []
        ids, model, ours = out.ids, out.model, {id(order) for order in out.orders}
        wanted = protocol.travelling(self.desk.method, model.anchor.size)
        for arrival in self.post.collect(ids, out.deadline, self.config.quorum):
            order = arrival.sent.order
            if order is None or id(order) not in ours:
                self.door.stray(stand.seats, arrival)
                continue
            verdict = judge(self.desk.method, order, model, arrival, wanted)
            if isinstance(verdict, str):
                self.door.refuse(order.client, verdict, undone(order, verdict))
            else:
                found.append(verdict)
        self._missing(ids)
        # whether one counts must not go by the others where whole clients are private; they are cut anyway
        limit = inf if self.desk.method.guard else self.config.norm_limit
        wild = oversized(found, model, stand.sizes, limit)
        for place, why in wild.items():
            self.door.refuse(place, why)
        return sorted((item for item in found if item.place not in wild), key=lambda item: item.place)

    def _missing(self, ids: set[str]) -> None:
        """Whoever owes this round an answer, and why there is none."""
        owing = [self.post.waiting[key] for key in ids & self.post.waiting.keys()]
        here = self.post.nodes() if owing else set()
        for sent in owing:
            assert sent.order is not None
            gone = "gone" if sent.node not in here else "late"
            self.door.refuse(sent.order.client, f"{gone}: no reply within {self.post.now() - sent.at:.1f} s")

    def hear_late(self, stand: Progress) -> None:
        """What late replies say of their clients' costs: who was late is planned to make it."""
        for arrival in self.door.late:
            stand.measured = late_replies.learn(stand.measured, arrival, self.config.poll)
        self.door.late = []
