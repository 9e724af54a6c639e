"""From replies to a new model: what is believed of a reply, and how accepted ones are put together."""

from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Upload
from amsfl.flower import wire
from amsfl.flower.server import checks
from amsfl.flower.server.post import Arrival, gone
from amsfl.methods import Method


class Good(NamedTuple):
    """A reply that passed its checks."""

    place: int
    reply: wire.Reply
    lr: float
    seconds: float  # from push to pull
    at: float  # when it was pulled

    def size(self, part: str) -> float:
        return checks.size(getattr(self.reply.upload, part), self.lr, self.reply.steps)


def judge(order: wire.Order, model: wire.Model, arrival: Arrival) -> Good | str:
    """The reply, or why it must not touch the model."""
    message = arrival.message
    if message.has_error():
        return f"{'gone' if gone(message) else 'failed'}: {message.error.reason}"
    try:
        reply = wire.unpack_reply(message.content)
    except (KeyError, TypeError, ValueError, OverflowError, EOFError) as error:
        return f"unreadable: {error!r}"
    why = checks.reason(order, model, reply)
    return why or Good(order.client, reply, order.lr, arrival.seconds, arrival.sent.at + arrival.seconds)


def oversized(good: list[Good], sizes: dict[str, checks.Sizes], limit: float) -> dict[int, str]:
    """Clients whose update is out of all proportion, and why; see checks.py."""
    found = {}
    for part, history in sizes.items():
        now = [item.size(part) for item in good]
        usual = checks.usual(history if all(item.lr for item in good) else [], now)
        for item, size in zip(good, now, strict=True):
            why = checks.too_large(size, usual, limit)
            if why:
                found[item.place] = f"{why} ({part})"
    return found


def combine(
    method: Method, model: wire.Model, good: list[Good], weights: Any, steps: Any
) -> tuple[wire.Vector, wire.Vector, wire.Buffers]:
    """The method's own mix and aggregate, in float32 and in the clients' order, as the loop engine does."""
    shares, counts = np.asarray(weights, np.float32), np.asarray(steps, np.float32)
    mix = method.mix(shares, counts)
    total: Upload | None = None
    for part, item in zip(mix, good, strict=True):
        scaled = Upload(*(part * each for each in item.reply.upload))
        total = scaled if total is None else Upload(*(a + b for a, b in zip(total, scaled, strict=True)))
    assert total is not None
    anchor, server = method.aggregate(model.anchor, total, shares, counts, model.server)
    return (
        np.asarray(anchor, np.float32),
        np.asarray(server, np.float32),
        {name: _buffer([item.reply.buffers[name] for item in good], weights) for name in model.buffers},
    )


def _buffer(parts: list[wire.Vector], weights: Any) -> wire.Vector:
    """Running statistics are averaged by weight; counters (BatchNorm's batches) take the largest."""
    stacked = np.stack(parts)
    if stacked.dtype.kind != "f":
        return np.asarray(stacked.max(0), stacked.dtype)
    return np.asarray(np.average(stacked, axis=0, weights=weights), stacked.dtype)
