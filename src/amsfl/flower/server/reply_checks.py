# ruff: noqa: RUF012  (nobody changes a default)
"""Whether a reply may touch the model: the accepted reply, or a sentence that says why not.

One bound holds what would move the model: delta, extra, float buffers and integer ones (their changes), and
the loss. The size of a part is ||part|| / (lr * sqrt(steps)), the mean length of its steps if they were a
walk. An honest walk of t steps ends between one step (back and forth) and t steps (straight on) from its
start, so that by sqrt(t) one step and 64 are never more than a factor 8 apart, whichever way they went.
A part is refused when its size passes `limit` times the usual: the largest that was accepted over the last
rounds, or the lower median of this round's, so that nobody jumps alone. With two clients that is the smaller
one. Buffers may also change by as much as they are long, and a loss may always be 1.

Numbers are checked in the precision that they are used in: 1e300 is finite as a double, infinite as float32.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl import protocol
from amsfl.core import Parts, Reading, Upload
from amsfl.flower import messages, vector_files
from amsfl.flower.messages import Buffers, GlobalModel, Order, Reply
from amsfl.flower.server.transport import Arrival, error_text, is_gone
from amsfl.methods import Method
from amsfl.protocol import reading_of_upload

FAILED = "failed"
HISTORY = 5  # rounds that the bound remembers
PARTS = ("delta", "extra", "buffers", "counters", "loss")  # what is bounded
# of a reading: what a client cannot tell that holds no rows back, or was not in the round before
MAY_BE_NAN = ("grad_dir", "diff_dir", "delta_dir", "held_loss", "spread", "way_begin")
Sizes = list[list[float]]  # [round][client]: sizes accepted


class OpenOrder(NamedTuple):
    """An order whose reply is waited for."""

    order: Order
    model: GlobalModel  # what the client begins from
    node: int = -1
    version: int = 0  # how often the server had moved by then
    sent_at: float = 0.0
    own: dict[str, Any] = {}  # why these steps: this client's part of the plan
    shared: dict[str, Any] = {}  # and the whole plan's


class AcceptedReply(NamedTuple):
    """A reply that passed its checks. Its arrays may be on disk."""

    job: OpenOrder
    reply: Reply  # without its arrays but the buffers
    upload: Upload
    bytes_up: float
    sizes: dict[str, float]  # of all that would move the model, by its name in PARTS
    seconds: float  # from push to pull
    arrived_at: float
    age: int = 0  # moves of the server since it began

    @property
    def client(self) -> int:
        return self.job.order.client

    @property
    def lr(self) -> float | None:
        return self.job.order.lr if self.job.order.lr_known else None


def accept(method: Method, job: OpenOrder, arrival: Arrival) -> AcceptedReply | str:
    """The reply, or why it must not touch the model."""
    message, order, model = arrival.message, job.order, job.model
    if message.has_error():
        return f"{'gone' if is_gone(message) else FAILED}: {error_text(message)}"
    try:
        reply = messages.unpack_reply(message.content)
        wanted = protocol.empty_parts(method, model.anchor.size)
        parts = {name: part for name, part in wanted.items() if not part.size} | reply.parts
        why = refusal(method, order, model, reply) or wrong_form("parts", wanted, parts)
        if why:
            return why
        with np.errstate(all="ignore"):
            upload = protocol.decode(method.transmit, parts)
    except Exception as error:  # a client's bytes: whatever they break, only their sender is left out
        return f"unreadable: {error!r}"
    if why := not_finite({"delta": upload.delta, "extra": upload.extra}):
        return why
    if method.private_rows:
        reply = reply._replace(reading=Reading(*map(float, reading_of_upload(upload.delta, model.direction))))
    lr = order.lr if order.lr_known else None
    changes = [changed(model.buffers, reply.buffers, floats) for floats in (True, False)]
    rates = (lr, lr, None, None)  # buffers have no lr
    moves = zip((upload.delta, upload.extra, *changes), rates, strict=True)
    sizes = [*(size(part, rate, reply.steps) for part, rate in moves), abs(reply.reading.loss)]
    if method.arithmetic.second is not None:  # the second vector is the first times this
        times = method.arithmetic.second(reply.effective, reply.reading.length)
        sizes[1] = size(upload.delta, None, reply.steps) * times
    return AcceptedReply(
        job,
        reply._replace(parts={}),
        upload._replace(delta=vector_files.kept(upload.delta), extra=vector_files.kept(upload.extra)),
        float(sum(protocol.part_bytes(part) for part in reply.parts.values()))
        + protocol.FLOAT * len(Reading._fields) * order.readings,
        dict(zip(PARTS, sizes, strict=True)),
        arrival.seconds,
        arrival.sent.at + arrival.seconds,
    )


def refusal(method: Method, order: Order, model: GlobalModel, reply: Reply) -> str | None:
    """Everything about one reply that needs neither its upload nor another reply to judge."""
    if reply.run != order.run:
        return f"foreign run: the reply belongs to run {reply.run!r}, this is {order.run!r}"
    if reply.round != order.round:
        return f"replayed round: the reply is round {reply.round + 1}'s, this is round {order.round + 1}"
    if reply.client != order.client:
        return f"wrong client: the reply is client {reply.client}'s, the order was client {order.client}'s"
    if not 1 <= reply.steps <= order.steps:
        return f"wrong steps: {reply.steps} were run, {order.steps} were asked for"
    if not (reply.rows > 0 and 0 <= reply.step_seconds < np.inf and 0 <= reply.compute_seconds < np.inf):
        return "impossible numbers: rows and seconds must be finite and not negative"
    if not (0 <= single(reply.effective) < np.inf and reply.skipped >= 0):
        return "impossible numbers: an optimizer's way must be finite and not negative"
    floats = {f"buffer {name}": part for name, part in reply.buffers.items() if part.dtype.kind == "f"}
    wrong = wrong_form("buffers", model.buffers, reply.buffers) or not_finite(floats)
    return wrong or _wrong_reading(method, reply.reading)


def single(value: float) -> float:
    """A number as float32 holds it."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def wrong_form(what: str, wanted: Parts, came: Parts) -> str | None:
    """Names, shapes and types of what came, before anything is made of it: nobody gets more memory."""
    if set(came) != set(wanted):
        return f"{what}: {sorted(came)[:10]} came, {sorted(wanted)[:10]} were asked for"
    for name, part in wanted.items():
        if came[name].shape != part.shape:
            return f"shape: {name} is {came[name].shape}, the model's {part.shape}"
        if came[name].dtype != part.dtype:
            return f"dtype: {name} is {came[name].dtype}, the model's {part.dtype}"
    return None


def not_finite(parts: Parts) -> str | None:
    for name, part in parts.items():
        if not vector_files.finite(np.ravel(part)):
            return f"not finite: {name} holds {int((~np.isfinite(part)).sum())} NaN or infinite numbers"
    return None


def _wrong_reading(method: Method, reading: Reading) -> str | None:
    given = [value for name, value in reading._asdict().items() if name not in MAY_BE_NAN or value == value]
    if not all(np.isfinite(single(value)) for value in given):
        return "not finite: the reading holds numbers that are NaN, or infinite as float32"
    if min(reading.grad_sq, reading.diff_sq, reading.delta_sq, reading.length) < 0:
        return "impossible numbers: the reading holds squares or lengths below zero"
    if reading.loss < 0 and (method.facts.own_rate or method.arithmetic.stride is not None):
        return f"loss: {reading.loss:g} is below zero, and {method.name} takes its learning rate from losses"
    return None


def size(vector: Any, lr: float | None, steps: int) -> float:
    """Without an lr (each client finds its own in the first round) it compares within the round only."""
    return float(np.sqrt(vector_files.square(vector)) / ((1.0 if lr is None else lr) * np.sqrt(steps)))


def changed(ours: Buffers, theirs: Buffers, floats: bool) -> Any:
    """What became of the buffers, float ones or integer ones, as one vector."""
    parts = [
        np.ravel(np.asarray(theirs[name], float) - np.asarray(part, float))
        for name, part in ours.items()
        if (part.dtype.kind == "f") == floats
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def oversized(
    replies: Sequence[AcceptedReply],
    model: GlobalModel,
    sizes: dict[str, Sizes],
    limit: float,
    others: bool = True,
) -> dict[int, str]:
    """Clients whose update is out of all proportion, and why; `others`: the run has more than one."""
    reasons = dict[int, str]()
    zero = {name: 0 * part for name, part in model.buffers.items()}
    least = {"buffers": changed(zero, model.buffers, True), "loss": np.ones(1)}
    for part in PARTS:
        now, history = [item.sizes[part] for item in replies], sizes.get(part, [])
        comparable = part == "loss" or all(item.lr is not None for item in replies)
        common = usual(history if comparable else [], now)
        for item, each in zip(replies, now, strict=True):
            steps = 1 if part == "loss" else item.reply.steps
            floor = size(least[part], None, steps) if part in least else 0.0
            why = too_large(each, max(common, floor), limit)
            alone = others and part == "counters" and len(replies) == 1  # no other reply outvotes it
            if alone and any(history) and each > common == 0:
                why = "norm: integers that nobody changes"
            if why:
                reasons[item.client] = f"{why} ({part})"
    return reasons


def too_large(length: float, common: float, limit: float) -> str | None:
    """The bound, once there is something to hold it against."""
    if common > 0 and length > limit * common:
        return f"norm: {length:.3g} is more than {limit:g} times the usual {common:.3g}"
    return None


def usual(history: Sizes, now: Sequence[float]) -> float:
    """The size that is the measure; 0: there is none, as for a single client's first reply."""
    past = [value for round_ in history for value in round_]
    middle = sorted(now)[(len(now) - 1) // 2] if len(now) > 1 else 0.0
    return max([*past, middle])
