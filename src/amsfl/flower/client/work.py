"""A client's round, whatever computes its gradients: the steps asked for, and the GDA reading.

A client that cannot do them in the time it is given does fewer and says so: it is never late for its steps.

The vectors may be numpy arrays or torch tensors: a Trainer lifts the numpy ones that came over the wire
and everything after that uses operators alone, as the methods do.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from amsfl import protocol, sampling
from amsfl.core import Parts, Reading, Upload, UserError
from amsfl.flower.wire import Buffers, Model, Order, Vector
from amsfl.methods import Method

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
    parts: Parts  # what goes up
    client: Vector  # the method's client state
    memory: Vector  # what is remembered of transmissions
    reading: Reading
    steps: int  # that were run
    step_seconds: float


class Pace(NamedTuple):
    """A handicap, to make equal machines unequal: every step lasts at least `step_seconds` * `slowdown`,
    and `slowdown` times as long as it took."""

    slowdown: float = 1.0
    step_seconds: float = 0.0

    def rest(self, took: float) -> float:
        return max(self.slowdown * max(took, self.step_seconds) - took, 0.0)


def run(
    trainer: Trainer,
    order: Order,
    model: Model,
    method: Method,
    client: Vector,
    memory: Vector,
    pace: Pace | None = None,
) -> Done:
    """All of the local work: the protocol's lines, timed.

    `client` is the method's client state and `memory` that of its transmissions; empty where it has none.
    """
    pace = pace or Pace()
    trainer.begin(order, model, method)
    anchor, server, mine, direction = (
        trainer.lift(part) for part in (model.anchor, model.server, client, model.direction)
    )
    timed: list[float] = []

    def look(gradient: Callable[[Any, int], tuple[float, Any]], x: Any, step: int) -> tuple[float, Any]:
        found, took = _timed(gradient, x, step, pace)
        timed.append(took)
        if method.stride is not None and found[0] < 0:
            raise UserError(
                f"The loss is {found[0]:g}; {method.name} takes the length of its steps from it, so it must "
                "not be below zero: add a constant to it, or choose a method with an lr, such as fedavg."
            )
        return found

    def in_time() -> bool:
        """Whether one more step, and the reading's gradient, still end within the order's seconds."""
        return sum(timed) + (1 + order.readings) * typical(timed) <= order.within

    carry = protocol.begin(method, anchor, server, mine, order.lr, float(order.known))
    carry = protocol.first(method, carry, *look(trainer.gradient, carry.x, 0))
    steps = 1
    while steps < order.steps and in_time():
        carry = protocol.step(method, carry, *look(trainer.gradient, carry.x, steps))
        steps += 1
    if order.readings:
        carry = protocol.close(method, carry, *look(trainer.probe, carry.x, 0))
    upload, mine, taken = protocol.finish(method, carry, steps, direction)
    lowered = Upload(trainer.lower(upload.delta), trainer.lower(upload.extra), float(upload.delta_sq))
    with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
        key = sampling.stream(*map(sampling.words, (order.seed, order.round, order.client)))
        parts, memory = protocol.sent(method.transmit, key, lowered, memory)
    reading = Reading(*[0.0] * len(Reading._fields)) if taken is None else Reading(*map(float, taken))
    return Done(parts, trainer.lower(mine), memory, reading, steps, typical(timed))


def typical(timed: list[float]) -> float:
    """Seconds a step. The first one compiles, warms caches and starts workers: it counts only if alone."""
    return float(np.mean(timed[1:] or timed))


def _timed(gradient: Any, x: Any, step: int, pace: Pace) -> tuple[tuple[float, Any], float]:
    started = time.monotonic()
    found = gradient(x, step)
    time.sleep(pace.rest(time.monotonic() - started))
    return found, time.monotonic() - started
