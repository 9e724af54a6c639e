"""A client's round, whatever computes its gradients: exactly the steps asked for, and the GDA reading.

The vectors may be numpy arrays or torch tensors: a Trainer lifts the numpy ones that came over the wire
and everything after that uses operators alone, as the methods do.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from amsfl.core import Reading, Upload
from amsfl.drift import reading
from amsfl.flower.wire import Buffers, Model, Order, Vector, method_of
from amsfl.methods import Method
from amsfl.methods.base import UNCAPPED

Sleep = Callable[[float], None]


class Trainer(Protocol):
    """What a client brings. `gradient` is all that most need to think about."""

    rows: int  # how many it trains on: its weight

    def start(self, seed: int) -> tuple[Vector, Buffers]:
        """Initial parameters, flat float32, and buffers by name; asked of one client, once."""
        ...

    def begin(self, order: Order, model: Model, method: Method) -> None:
        """A round begins: load buffers, seed the minibatches."""
        ...

    def lift(self, vector: Vector) -> Any:
        """A flat numpy vector as this trainer computes with it."""
        ...

    def lower(self, vector: Any) -> Vector: ...

    def gradient(self, x: Any, step: int) -> tuple[float, Any]:
        """Loss and gradient at x of the round's minibatch `step`; the same number, the same minibatch."""
        ...

    def probe(self, x: Any, step: int) -> tuple[float, Any]:
        """The same for the reading: it must leave buffers and random streams as they were."""
        ...

    def buffers(self) -> Buffers: ...

    def evaluate(self, x: Any) -> dict[str, float] | None:
        """loss, accuracy and rows on local test data; None without any."""
        ...


class Done(NamedTuple):
    upload: Upload
    client: Vector
    reading: Reading
    step_seconds: float


class Pace(NamedTuple):
    """A handicap, to make equal machines unequal: every step lasts at least `step_seconds` * `slowdown`,
    and `slowdown` times as long as it took."""

    slowdown: float = 1.0
    step_seconds: float = 0.0

    def rest(self, took: float) -> float:
        return max(self.slowdown * max(took, self.step_seconds) - took, 0.0)


def run(trainer: Trainer, order: Order, model: Model, client: Vector, pace: Pace | None = None) -> Done:
    """All of the local work. `client` is the method's client state, empty where it has none."""
    pace, method = pace or Pace(), method_of(order)
    trainer.begin(order, model, method)
    anchor, server, mine, direction = (
        trainer.lift(part) for part in (model.anchor, model.server, client, model.direction)
    )

    def stride(value: float, grad: Any, most: Any) -> Any:
        return most if method.stride is None else method.stride(most, value, (grad * grad).sum())

    timed: list[float] = []
    most: Any = order.lr
    x, loss, first = anchor, 0.0, anchor
    for step in range(order.steps):
        (value, grad), took = _timed(trainer.gradient, x, step, pace)
        if step == 0:
            loss, first = value, grad
            if order.lr == 0 and method.stride is not None:  # nobody knows one yet: this one's is the cap
                most = stride(value, grad, UNCAPPED)
        x = x - stride(value, grad, most) * method.correct(grad, x, anchor, server, mine)
        timed.append(took)
    if order.readings:
        (value, last), took = _timed(trainer.probe, x, 0, pace)
        taken = reading(loss, first, last, x - anchor, direction)
        timed.append(took)
        if method.closing:
            x = x - stride(value, last, most) * method.correct(last, x, anchor, server, mine)
    else:
        taken = Reading(*[0.0] * len(Reading._fields))
    upload, mine = method.report(x, anchor, order.steps, order.lr, server, mine)
    return Done(
        Upload(trainer.lower(upload.delta), trainer.lower(upload.extra), float(upload.delta_sq)),
        trainer.lower(mine),
        Reading(*(float(value) for value in taken)),
        typical(timed),
    )


def typical(timed: list[float]) -> float:
    """Seconds a step. The first one compiles, warms caches and starts workers: it counts only if alone."""
    return float(np.mean(timed[1:] or timed))


def _timed(gradient: Any, x: Any, step: int, pace: Pace) -> tuple[tuple[float, Any], float]:
    started = time.monotonic()
    found = gradient(x, step)
    time.sleep(pace.rest(time.monotonic() - started))
    return found, time.monotonic() - started
