"""What a round of real clients brings: orders, replies, what the server moves with, the round's record."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.flower import messages
from amsfl.flower.server import clients, scoring
from amsfl.flower.server.costs import SpendingMeter
from amsfl.flower.server.reply_checks import AcceptedReply
from amsfl.flower.server.server_state import ServerState
from amsfl.planning.planner import Decision
from amsfl.record import RoundRecord
from amsfl.simulation.event_queue import rate_of
from amsfl.simulation.round_record import TakenResults, judged
from amsfl.simulation.round_record import round_record as build_record

if TYPE_CHECKING:
    from amsfl.flower.server.open_orders import OpenOrders
    from amsfl.flower.server.server import FlowerServer

MOST_PLAIN_STEPS = 10.0  # times the cohort's median, for each step of an optimizer of a client's own


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
    agreement: float = 0.0  # of the uploads that the server moved with

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


def collect(
    orders: "OpenOrders", state: ServerState, taken: Sequence[ArrivedReply], began: float
) -> RoundResults:
    """What the server moves with, as a round's record has it: where clients do not wait for each other with a
    timeline, in seconds since the run `began`."""
    dropped, now, timeline = orders.dropped, orders.transport.now(), dict[str, Any]()
    jobs = [each.job for each in taken]
    replies = [each.reply._replace(age=state.round - each.job.version) for each in taken]
    explain = jobs[-1].shared | {key: [job.own[key] for job in jobs] for key in jobs[-1].own} if jobs else {}
    if orders.end.waits_for_all:
        over = now if dropped or not replies else max(item.arrived_at for item in replies)
        seconds, plan_seconds = over - orders.started, orders.plan_seconds
        if len(replies) < len(orders.planned):
            cohort, steps = (list(column) for column in zip(*orders.planned, strict=True))
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
    rates = np.array([job.order.lr if job.order.lr_known else np.nan for job in jobs])
    decision = Decision(ordered, rate_of(rates) if jobs else orders.config.lr, plan_seconds, explain)
    return RoundResults(decision, state.model, replies, orders.bytes_down, seconds, timeline, dropped)


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


def notes(replies: Sequence[AcceptedReply], held_back: bool) -> list[str]:
    """What must be known of clients whose work was taken all the same; `held_back`: rows were to be."""
    lost = [item.client for item in replies if item.reply.lost_state]
    left_out = [(item.client, item.reply.skipped) for item in replies if item.reply.skipped]
    return (
        [f"client {who} had lost its state and began anew" for who in lost]
        + [f"client {who} left out {count} batches whose loss was not finite" for who, count in left_out]
        + [
            f"client {item.client} holds no rows back: the judge goes by its first minibatch, if it has one"
            for item in replies
            if held_back and not item.reply.held_rows
        ]
    )


class RoundTotals(NamedTuple):
    """What a round took."""

    seconds: dict[str, float]
    bytes_up: float
    spent: dict[str, float]  # joules, megabytes, cost
    started: float

    @classmethod
    def add(
        cls, state: ServerState, spending: SpendingMeter, results: RoundResults, started: float
    ) -> "RoundTotals":
        """To the state's own totals."""
        replies = results.replies
        seconds = {"sum": float(sum(item.seconds for item in replies)), "makespan": float(results.seconds)}
        state.seconds = {key: state.seconds[key] + each for key, each in seconds.items()}
        bytes_up = float(sum(item.bytes_up for item in replies))
        steps = np.array([item.reply.steps for item in replies], int)
        lost = [(each.client, each.steps) for each in results.dropped]
        spent = spending.bill(results.cohort, steps, lost, bytes_up + results.bytes_down)
        state.spent = {name: state.spent.get(name, 0.0) + each for name, each in spent.items()}
        return cls(seconds, bytes_up, spent, started)


class FinishedRound(NamedTuple):
    results: RoundResults
    reading: Reading
    weighed: dict[str, Any]  # how much each client counts after each link of a rule
    metrics: dict[str, Any]
    totals: RoundTotals
    worth: dict[str, Any]  # what the ledger says, where it was looked at


def _judged(server: "FlowerServer", state: ServerState, replies: Sequence[AcceptedReply]) -> dict[str, Any]:
    """What the judge made of the round, as in simulation, and how many rows each client held back for it."""
    if not server.method.judges:
        return {}
    return judged(state.memory) | {"held_rows": [item.reply.held_rows for item in replies]}


def round_record(server: "FlowerServer", state: ServerState, finished: FinishedRound) -> RoundRecord:
    """Of the round that has just been scored; refusals and notes so far are part of it."""
    results, reading, weighed, metrics, totals, worth = finished
    registration, replies = server.registration, results.replies
    first = state.round == 1 and server.method.judges and server.config.held_back > 0
    registration.notes += notes(replies, held_back=first)
    if not server.privacy.clients:
        metrics = metrics | scoring.training(replies, state, registration)
    steps = [item.reply.steps for item in replies]
    plan = {
        **results.decision.explain,
        "step_seconds": [item.reply.step_seconds for item in replies],
        "compute_seconds": [item.reply.compute_seconds for item in replies],
        "client_seconds": [item.seconds for item in replies],
        "refused": list(registration.refused),
        "notes": list(registration.notes),
        **server.spending.each(results.cohort, np.array(steps, int)),
        **_judged(server, state, replies),
    }
    state.refused += len(registration.refused)
    registration.refused, registration.notes = [], []
    shares = clients.weights(state.clients)[results.cohort]
    ages, plain = [item.age for item in replies], np.asarray(plain_steps(replies))
    taken = reading if server.orders.readings else None
    return build_record(
        server.method,
        server.end,
        TakenResults(results.cohort.tolist(), steps, ages, shares, plain, taken, weighed),
        results.decision,
        totals.spent,
        round=state.round,
        seconds=dict(state.seconds),
        round_seconds=totals.seconds,
        metrics=metrics,
        bytes_up=totals.bytes_up,
        bytes_down=results.bytes_down,
        plan=plan,
        wall={"seconds": server.transport.now() - totals.started, "elapsed": state.elapsed},
        epsilon=server.privacy.ledger.bounds(server.privacy.units(state)),
        worth=worth,
        **results.timeline,
    )
