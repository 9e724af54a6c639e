"""Whether a reply may touch the model: a sentence that says why not, or None.

One bound holds what would move the model: delta, extra, float buffers and integer ones (their changes).
The size of a part is ||part|| / (lr * sqrt(steps)), the mean length of its steps if they were a walk. An
honest walk of t steps ends between one step (back and forth) and t steps (straight on) from its start, so
that by sqrt(t) one step and 64 are never more than a factor 8 apart, whichever way they went.
A part is refused when its size passes `limit` times the usual: the largest that was accepted over the last
rounds, or the lower median of this round's, so that nobody jumps alone. With two clients that is the smaller
one. Buffers may also change by as much as they are long: that alone is no news of a client.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from amsfl.core import Parts, Reading, Upload
from amsfl.flower.messages import Buffers, GlobalModel, Order, Reply
from amsfl.methods import Method

HISTORY = 5  # rounds that the bound remembers
PARTS = ("delta", "extra", "buffers", "counters")  # what is bounded
Sizes = list[list[float]]  # [round][client]: sizes accepted


def reason(order: Order, model: GlobalModel, reply: Reply) -> str | None:
    """Everything about one reply that needs no other reply to judge."""
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
    if not (0 <= reply.effective < np.inf and reply.skipped >= 0):
        return "impossible numbers: an optimizer's way must be finite and not negative"
    return _buffers(model.buffers, reply.buffers) or _reading(reply.reading)


def too_large(size: float, usual: float, limit: float) -> str | None:
    """The norm check, once there is something to hold it against."""
    if usual > 0 and size > limit * usual:
        return f"norm: {size:.3g} is more than {limit:g} times the usual {usual:.3g}"
    return None


def size(vector: Any, lr: float | None, steps: int) -> float:
    """Without an lr (each client finds its own in the first round) it compares within the round only."""
    # not np.linalg.norm: BLAS wakes all its threads for a vector, which takes longer than the sum
    length = np.sqrt(np.square(vector, dtype=float).sum())
    return float(length / ((1.0 if lr is None else lr) * np.sqrt(steps)))


def change(ours: Buffers, theirs: Buffers, floats: bool) -> Any:
    """What became of the buffers, float ones or integer ones, as one vector."""
    parts = [
        np.ravel(np.asarray(theirs[name], float) - np.asarray(part, float))
        for name, part in ours.items()
        if (part.dtype.kind == "f") == floats
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def remember(history: Sizes, accepted: list[float]) -> Sizes:
    return [*history, accepted][-HISTORY:] if accepted else history


def usual(history: Sizes, now: Sequence[float]) -> float:
    """The size that is the measure; 0: there is none, as for a single client's first reply."""
    past = [value for round_ in history for value in round_]
    middle = sorted(now)[(len(now) - 1) // 2] if len(now) > 1 else 0.0
    return max([*past, middle])


def travelled(wanted: Parts, parts: Parts) -> str | None:
    """Names, shapes and types of what came, before anything is made of it: nobody gets more memory."""
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
    if min(reading.grad_sq, reading.diff_sq, reading.delta_sq) < 0:
        return "impossible numbers: the reading holds squares below zero"
    return None


def loss(reading: Reading, method: Method) -> str | None:
    """Whoever takes step lengths from losses cannot use one below zero."""
    if reading.loss < 0 and (method.facts.own_rate or method.arithmetic.stride is not None):
        return f"loss: {reading.loss:g} is below zero, and {method.name} takes its learning rate from losses"
    return None
