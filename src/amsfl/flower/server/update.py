"""All that one round's accepted replies change: the model, the planner's memory, costs, clients and sizes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl import clock, protocol
from amsfl.clock.costs import MEGABYTE
from amsfl.combine import middle
from amsfl.core import Reading, Upload
from amsfl.flower import vector_files
from amsfl.flower.messages import Buffers, Vector
from amsfl.flower.server import clients, costs, pieces, reply_checks
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.reply_checks import AcceptedReply
from amsfl.flower.server.round_results import RoundResults, plain_steps
from amsfl.flower.server.server_state import ServerState
from amsfl.methods import Method
from amsfl.planning.believed import FAR
from amsfl.planning.planner import Planner
from amsfl.record.tensors import release

LONG = 3.0  # times clients' own gradients: their mean is no longer than they are, but for noise


class NextModel(NamedTuple):
    anchor: Vector
    server: Vector
    buffers: Buffers
    weighed: dict[str, Any]  # how much each client counts after each link of a rule
    history: Vector  # [clients, ...] what the rule remembers of every client
    agreement: float  # of the uploads, for methods that go by it; else 0

    @property
    def finite(self) -> bool:
        parts = [self.anchor, self.server, *_floats(self.buffers)]
        return all(vector_files.finite(np.ravel(part)) for part in parts)


def _floats(buffers: Buffers) -> list[Vector]:
    return [part for part in buffers.values() if part.dtype.kind == "f"]


def settle(
    orders: OrderWriter, state: ServerState, results: RoundResults, refuse: Callable[[int, str], None]
) -> tuple[RoundResults, NextModel | None]:
    """The next model, and the results that it is made of; None where no finite one can be made.

    A model that is not finite is never kept: the client whose numbers are largest is refused, until the model
    of the others is finite.
    """
    while results.replies or orders.privacy.clients:
        with np.errstate(all="ignore"):
            model = combine(orders, state, results.replies)
        if model.finite:
            return results, model
        if not results.replies:
            break
        worst = max(results.replies, key=_largest)
        refuse(worst.client, "not finite: with this reply the model would hold NaN or infinite numbers")
        results = results.without(worst)
    return results, None


def _largest(item: AcceptedReply) -> float:
    """The largest number of a reply, as a client that wants to break sums would send it."""
    parts = [vector_files.largest(part) for part in (item.upload.delta, item.upload.extra)]
    floats = [np.abs(part).max(initial=0.0) for part in _floats(item.reply.buffers)]
    return float(max([*parts, *floats, *map(abs, item.reply.reading), item.reply.effective]))


def combine(orders: OrderWriter, state: ServerState, replies: Sequence[AcceptedReply]) -> NextModel:
    """The next model, in float32 and in the clients' order, as the loop engine has it.

    Where whole clients are private the model moves by noise alone if nobody's work is there, since that
    nobody was there is a secret.
    """
    method, anchor, noise = orders.method, state.anchor, orders.privacy.server_noise(state)
    who = np.array([item.client for item in replies], int)
    shares = np.asarray(clients.weights(state.clients)[who], np.float32)
    counts = np.asarray(plain_steps(replies), np.float32)
    reading = None if noise is not None else _readings(replies, np.float32)
    if noise is not None:
        shares, counts = (np.append(part, np.float32(0)) for part in (shares, counts))

    def uploads(piece: slice) -> Iterator[Upload]:
        """One at a time: they may be on disk."""
        for item in replies:
            weight, (delta, extra, delta_sq) = np.float32(orders.end.weight(item.age)), item.upload
            sent = Upload(delta[piece], extra[piece], delta_sq)
            if item.age or weight != 1:
                began = item.job.model.anchor[piece] if item.age else None
                sent = protocol.weigh_by_age(method, sent, weight, anchor[piece], began)
            done, length = map(np.float32, (item.reply.effective, item.reply.reading.length))
            try:
                yield protocol.complete(method, sent, done, length)
            finally:  # also when nobody asks for another one
                release(delta)
        if noise is not None:
            nothing = np.zeros_like(anchor)
            yield Upload(nothing, nothing[:0], np.float32(0))

    history = None if noise is not None else state.history[who]
    cohort = protocol.CohortWork((), shares, counts, reading=reading, private=noise, history=history)
    total, server, weighed, settled = pieces.combine(method, state.server, cohort, anchor.size, uploads)
    moved, server = pieces.aggregate(method, anchor, total, shares, counts, server)
    buffers = {
        name: _buffer(method, ours, [item.reply.buffers[name] for item in replies], shares)
        for name, ours in state.buffers.items()
    }
    history = state.history.copy()
    if settled is not None:
        history[who] = settled
    agreement = 0.0
    if method.facts.loosest > 1:
        agreement = float(protocol.agreement(total._replace(square=vector_files.square(total.delta))))
    return NextModel(moved, server, buffers, weighed, history, agreement)


def _buffer(method: Method, ours: Vector, parts: list[Vector], weights: Any) -> Vector:
    """Running statistics are averaged by weight, or their middle is taken where a rule doubts clients;
    of integers (BatchNorm's batches, positions) the middle client's, of two middles what is nearer to ours:
    what most leave as it is stays so."""
    stacked = np.stack(parts)
    if stacked.dtype.kind != "f":
        low, *_, high = np.sort(stacked, axis=0)[[(len(parts) - 1) // 2, len(parts) // 2]]
        return np.asarray(np.maximum(low, np.minimum(ours, high)), stacked.dtype)
    if method.combine is not None:
        return np.asarray(middle(stacked, weights), stacked.dtype)
    return np.asarray(np.average(stacked, axis=0, weights=weights), stacked.dtype)


def move(state: ServerState, results: RoundResults, model: NextModel) -> RoundResults:
    """The state with the new model. The results let go of the old one, which may be large."""
    if state.step.size:
        state.step = vector_files.each(np.subtract, model.anchor, state.anchor)
    state.anchor, state.server, state.buffers = model.anchor, model.server, model.buffers
    state.history = model.history
    replies = [item._replace(job=item.job._replace(model=state.model)) for item in results.replies]
    return results._replace(replies=replies, agreement=model.agreement, weighed=model.weighed)


def learn(state: ServerState, orders: OrderWriter, planner: Planner, results: RoundResults) -> RoundResults:
    """The state after what a round says of the plan, and what it took; the results with that."""
    replies, method, poll = results.replies, orders.method, orders.config.poll
    reading = _readings(replies, float)
    if replies:
        # as it was: a site that stops by itself (most_seconds) does fewer steps than were planned
        taken = results.decision._replace(steps=results.steps, predicted_seconds=results.seconds)
        state.memory = planner.learn(state.memory, results.cohort, taken, reading, results.agreement)
        _follow_verdict(state, method)
    for item in replies:
        reply, who = item.reply, item.client
        times = costs.ReplyTimes(reply.steps, reply.step_seconds, item.seconds)
        state.measured = costs.observe(state.measured, who, times, poll, method.combine is not None)
        state.clients[who] = state.clients[who]._replace(accepted=reply.round)
        state.steps[who] += reply.steps
    for part in reply_checks.PARTS:
        sizes = [item.sizes[part] for item in replies if item.lr is not None or part == "loss"]
        if part == "counters":  # the larger half was outvoted, and is no measure for who comes alone
            sizes = sorted(sizes)[: (len(sizes) + 1) // 2]
        if sizes:
            state.sizes[part] = [*state.sizes.get(part, []), sizes][-reply_checks.HISTORY :]
    state.round += 1
    state.corrects_well = corrects_well(state, method, results, reading)
    state.seconds = {key: state.seconds[key] + each for key, each in results.clocks.items()}
    lost = tuple(np.array([each[place] for each in results.dropped], int) for place in (0, 3))
    spent = clock.spent(orders.accounts, (results.cohort, results.steps), (lost[0], lost[1]))
    spent |= {"megabytes": (results.bytes_up + results.bytes_down) / MEGABYTE}
    state.spent = {name: state.spent.get(name, 0.0) + each for name, each in spent.items()}
    return results._replace(reading=reading, spent=spent)


def corrects_well(state: ServerState, method: Method, results: RoundResults, reading: Reading) -> bool:
    """Whether clients' drift can be corrected by the mean gradient that this round leaves.

    Not if it was corrected and somebody had lost its part of the mean before: then this mean is not that of
    the parts, and stays so as long as it is corrected by. Nor if the mean is more than LONG times as long as
    clients' own gradients, as false lengths of steps make it. A round without correction sets it right.
    """
    if method.arithmetic.second is None or not state.memory.judge.corrects:
        return True
    shares = clients.weights(state.clients)[results.cohort]
    usual = np.average(clients.bounded(np.sqrt(reading.grad_sq), FAR), weights=shares)
    mean = protocol.sent_state(method, state.server, state.anchor)
    lost = "correction" in results.decision.explain and any(item.reply.lost_state for item in results.replies)
    return bool(not lost and vector_files.square(mean) <= (LONG * usual) ** 2)


def _readings(replies: Sequence[AcceptedReply], dtype: Any) -> Reading:
    """The cohort's readings, one array a field."""
    columns = ([item.reply.reading[place] for item in replies] for place in range(len(Reading._fields)))
    return Reading(*(np.array(column, dtype) for column in columns))


def _follow_verdict(state: ServerState, method: Method) -> None:
    """The model after the judge's verdict on the round that was just learnt from."""
    verdict = state.memory.judge.verdict
    if method.arithmetic.revise is None or not verdict:
        return
    anchor, server = pieces.revise(method, state.anchor, state.server, verdict)
    if state.step.size:
        state.step = vector_files.each(lambda new, old, v: new - old + v, anchor, state.anchor, state.step)
    state.anchor, state.server = anchor, server
