"""From replies to a new model: what is believed of a reply, and how accepted ones are put together."""

from typing import Any, NamedTuple

import numpy as np

from amsfl import protocol
from amsfl.clock.staleness import Weight as Worth
from amsfl.combine import middle
from amsfl.core import Parts, Reading, Upload
from amsfl.drift import reading_of_upload
from amsfl.flower import messages
from amsfl.flower.server import reply_checks
from amsfl.flower.server.transport import Arrival, gone
from amsfl.methods import Method

FAILED = "failed"
FAR = 10.0  # times the cohort's median


class AcceptedReply(NamedTuple):
    """A reply that passed its checks."""

    place: int
    reply: messages.Reply
    upload: Upload
    sizes: dict[str, float]  # of all that would move the model, by its name in checks.PARTS
    lr: float | None
    seconds: float  # from push to pull
    at: float  # when it was pulled
    age: int = 0  # moves of the server since it began
    began: messages.Vector | None = None  # the model that it began from, where rounds do not wait for all
    asked: int = 0  # steps that it was asked for


def judge(
    method: Method,
    order: messages.Order,
    model: messages.GlobalModel,
    arrival: Arrival,
    wanted: Parts | None = None,
) -> AcceptedReply | str:
    """The reply, or why it must not touch the model. `wanted` are the arrays of this method's uploads."""
    wanted = protocol.empty_parts(method, model.anchor.size) if wanted is None else wanted
    message = arrival.message
    if message.has_error():
        return f"{'gone' if gone(message) else FAILED}: {message.error.reason}"
    try:
        reply = messages.unpack_reply(message.content)
        parts = {name: part for name, part in wanted.items() if not part.size} | reply.parts
        why = (
            reply_checks.reason(order, model, reply)
            or reply_checks.loss(reply.reading, method)
            or reply_checks.travelled(wanted, parts)
        )
        if why:
            return why
        with np.errstate(all="ignore"):
            upload = protocol.decode(method.transmit, parts)
    except Exception as error:  # strangers' bytes: whatever they break, only their sender is left out
        return f"unreadable: {error!r}"
    if method.private_rows:
        reply = reply._replace(reading=Reading(*map(float, reading_of_upload(upload.delta, model.direction))))
    lr = order.lr if order.lr_known else None
    why = reply_checks.finite(upload)
    if why:
        return why
    changes = (reply_checks.change(model.buffers, reply.buffers, floats) for floats in (True, False))
    moved = zip(
        (upload.delta, upload.extra, *changes), (lr, lr, None, None), strict=True
    )  # buffers have no lr
    sizes = (reply_checks.size(part, rate, reply.steps) for part, rate in moved)
    named = dict(zip(reply_checks.PARTS, sizes, strict=True))
    at = arrival.sent.at + arrival.seconds
    return AcceptedReply(order.client, reply, upload, named, lr, arrival.seconds, at, asked=order.steps)


def undone(order: messages.Order, verdict: str) -> int:
    """Steps of the order that the client did not do, by its own word."""
    return order.steps if verdict.startswith(FAILED) else 0


def oversized(
    good: list[AcceptedReply], model: messages.GlobalModel, sizes: dict[str, reply_checks.Sizes], limit: float
) -> dict[int, str]:
    """Clients whose update is out of all proportion, and why; see checks.py."""
    found = {}
    zero = {name: 0 * part for name, part in model.buffers.items()}
    long = {"buffers": reply_checks.change(zero, model.buffers, True)}
    for part, history in sizes.items():
        now = [item.sizes[part] for item in good]
        usual = reply_checks.usual(history if all(item.lr is not None for item in good) else [], now)
        for item, size in zip(good, now, strict=True):
            least = reply_checks.size(long[part], None, item.reply.steps) if part in long else 0.0
            why = reply_checks.too_large(size, max(usual, least), limit)
            if why:
                found[item.place] = f"{why} ({part})"
    return found


def effective(good: list[AcceptedReply]) -> Any:
    """Steps as averages count them: where an optimizer of a client's own moved it, what that amounts to.

    That is the client's word, so for each of its steps it is at most FAR times more or less than the others'.
    """
    steps = np.array([item.reply.steps for item in good], float)
    if not good:
        return steps
    each = np.array([item.reply.effective for item in good]) / steps
    middle = float(np.median(each))
    return steps * np.clip(each, middle / FAR, middle * FAR) if middle > 0 else steps


def combine(
    method: Method,
    model: messages.GlobalModel,
    good: list[AcceptedReply],
    weights: Any,
    steps: Any,
    worth: Worth,
    private: tuple[Any, Any] | None = None,
) -> tuple[messages.Vector, messages.Vector, messages.Buffers, dict[str, Any]]:
    """The next model, in float32 and in the clients' order, as the loop engine has it; what a rule made of
    the clients.

    `worth` is what an upload counts by its age; `private` what keeps whole clients private (protocol.settle):
    then the model moves by noise alone where nobody's work is there, since that nobody was there is a secret.
    """
    shares, counts = np.asarray(weights, np.float32), np.asarray(steps, np.float32)
    uploads = [
        protocol.weigh_by_age(
            method, item.upload, np.float32(worth(item.age)), model.anchor, item.began if item.age else None
        )
        for item in good
    ]
    losses: Any = np.array([item.reply.reading.loss for item in good], np.float32)
    if private is not None:
        nothing, losses = np.zeros_like(model.anchor), None
        uploads.append(Upload(nothing, nothing[:0], np.float32(0)))
        shares, counts = (np.append(part, np.float32(0)) for part in (shares, counts))
    cohort = protocol.CohortWork(uploads, shares, counts, losses=losses, private=private)
    anchor, server, weighed = protocol.settle(method, model.anchor, model.server, cohort)
    return (
        np.asarray(anchor, np.float32),
        np.asarray(server, np.float32),
        {
            name: _buffer(method, [item.reply.buffers[name] for item in good], shares)
            for name in model.buffers
        },
        weighed,
    )


def _buffer(method: Method, parts: list[messages.Vector], weights: Any) -> messages.Vector:
    """Running statistics are averaged by weight, or their middle is taken where a rule doubts clients;
    counters (BatchNorm's batches) take the largest."""
    stacked = np.stack(parts)
    if stacked.dtype.kind != "f":
        return np.asarray(stacked.max(0), stacked.dtype)
    if method.combine is not None:
        return np.asarray(middle(stacked, weights), stacked.dtype)
    return np.asarray(np.average(stacked, axis=0, weights=weights), stacked.dtype)
