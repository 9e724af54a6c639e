"""Whether a reply may touch the model: a sentence that says why not, or None.

The size of an update is ||delta|| / (lr * steps), the mean length of its steps' gradients, so that
many steps are no offence. An update (and likewise its `extra` vector) is refused when its size passes
`limit` times the largest that was accepted over the last rounds: clients may differ as they like, but
nobody may jump. Before anything was accepted (and while no learning rate is set), the measure is the
median of this round's replies, if there are three or more; with fewer there is nothing to compare.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from amsfl import protocol
from amsfl.core import Parts, Reading, Upload
from amsfl.flower.wire import Buffers, Model, Order, Reply
from amsfl.methods import Method

HISTORY = 5  # rounds that the median remembers
Sizes = list[list[float]]  # [round][client]: sizes accepted


def reason(order: Order, model: Model, reply: Reply) -> str | None:
    """Everything about one reply that needs no other reply to judge."""
    if reply.run != order.run:
        return f"foreign run: the reply belongs to run {reply.run!r}, this is {order.run!r}"
    if reply.round != order.round:
        return f"replayed round: the reply is round {reply.round + 1}'s, this is round {order.round + 1}"
    if reply.client != order.client:
        return f"wrong client: the reply is client {reply.client}'s, the order was client {order.client}'s"
    if reply.steps != order.steps:
        return f"wrong steps: {reply.steps} were run, {order.steps} were asked for"
    if not (reply.rows > 0 and reply.step_seconds >= 0 and reply.compute_seconds >= 0):
        return "impossible numbers: rows and seconds must not be negative"
    return _buffers(model.buffers, reply.buffers) or _reading(reply.reading)


def too_large(size: float, usual: float, limit: float) -> str | None:
    """The norm check, once there is something to hold it against."""
    if usual > 0 and size > limit * usual:
        return f"norm: {size:.3g} is more than {limit:g} times the usual {usual:.3g}"
    return None


def size(vector: Any, lr: float | None, steps: int) -> float:
    """Without an lr (each client finds its own in the first round) it compares within the round only."""
    if not vector.size:
        return 0.0
    return float(np.linalg.norm(np.asarray(vector, float)) / ((1.0 if lr is None else lr) * steps))


def remember(history: Sizes, accepted: list[float]) -> Sizes:
    return [*history, accepted][-HISTORY:] if accepted else history


def usual(history: Sizes, now: Sequence[float]) -> float:
    """The size that is the measure: the past's largest, else this round's median, if enough; 0: none."""
    past = [value for round_ in history for value in round_]
    return max(past) if past else float(np.median(now)) if len(now) >= 3 else 0.0


def travelled(method: Method, model: Model, parts: Parts) -> str | None:
    """Names, shapes and types of what came, before anything is made of it: nobody gets more memory."""
    wanted = protocol.travelling(method, model.anchor.size)
    if set(parts) != set(wanted):
        return f"parts: {sorted(parts)} came, {sorted(wanted)} were asked for"
    for name, part in wanted.items():
        if parts[name].shape != part.shape:
            return f"shape: {name} is {parts[name].shape}, the model's {part.shape}"
        if parts[name].dtype != part.dtype:
            return f"dtype: {name} is {parts[name].dtype}, the model's {part.dtype}"
    return None


def finite(upload: Upload) -> str | None:
    for name in ("delta", "extra"):
        part = getattr(upload, name)
        if not np.isfinite(part).all():
            return f"not finite: {name} holds {int((~np.isfinite(part)).sum())} NaN or infinite numbers"
    return None


def _buffers(ours: Buffers, theirs: Buffers) -> str | None:
    if set(ours) != set(theirs):
        return f"buffers: {sorted(set(ours) ^ set(theirs))} are not the same on both sides"
    for name, part in theirs.items():
        if part.shape != ours[name].shape or part.dtype != ours[name].dtype:
            return f"buffers: {name} is {part.dtype}{part.shape}, not {ours[name].dtype}{ours[name].shape}"
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            return f"not finite: buffer {name} holds NaN or infinite numbers"
    return None


def _reading(reading: Reading) -> str | None:
    if not all(np.isfinite(value) for value in reading):
        return "not finite: the reading holds NaN or infinite numbers"
    return None
