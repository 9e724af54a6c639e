"""A client's round, whatever computes its gradients: the steps asked for, and the GDA reading.

A client that cannot do them in the time it is given does fewer and says so: it is never late for its steps.

The vectors may be numpy arrays or torch tensors: a Trainer lifts the numpy ones that came over the wire
and everything after that uses operators alone, as the methods do.
"""

from collections.abc import Callable
from math import isfinite, nan
from typing import Any, Protocol

import numpy as np

from amsfl import protocol, sampling
from amsfl.core import Reading, Upload, UserError
from amsfl.flower.client.step_loop import LocalTask, NoMoreData
from amsfl.flower.messages import Buffers, GlobalModel, Order, Reply, TensorSpec, Vector
from amsfl.methods import Method

Look = Callable[[Any, int], tuple[float, Any]]  # loss and gradient at x of a minibatch by its number


class Trainer(Protocol):
    """What a client brings. `gradient` is all that most need to think about; a subclass that computes with
    numpy arrays needs `rows`, `start` and `gradient` alone."""

    rows: int  # how many it trains on: its weight
    held_rows: int = 0  # of them, that it holds back for the judge
    own_optimizer: bool = False  # it moves by one, in take_steps(); its `gradient` is then never asked for

    def start(self, seed: int) -> tuple[Vector, Buffers]:
        """Initial parameters, flat float32, and buffers by name; asked of one client, once."""
        ...

    def begin(self, order: Order, model: GlobalModel, method: Method) -> None:
        """A round begins: load buffers, seed the minibatches."""
        if method.arithmetic.objective is not None:
            raise UserError(f"Method {method.name!r} changes the loss itself; only jax_client can run it.")

    def from_numpy(self, vector: Vector) -> Any:
        """A flat numpy vector as this trainer computes with it."""
        return vector

    def to_numpy(self, vector: Any) -> Vector:
        return np.asarray(vector, np.float32)

    def gradient(self, x: Any, step: int) -> tuple[float, Any]:
        """Loss and gradient at x of the round's minibatch `step`; the same number, the same minibatch."""
        raise UserError(f"A {type(self).__name__} gives no gradients; it takes its steps itself.")

    def probe(self, x: Any, step: int) -> tuple[float, Any] | None:
        """The same for the reading: it must leave buffers and random streams as they were.

        None only of an own optimizer without gradients: then there are no readings of it."""
        return self.gradient(x, step)

    def buffers(self) -> Buffers:
        """Arrays by name that are averaged and not trained."""
        return {}

    def tensors(self) -> tuple[TensorSpec, ...]:
        """Names and shapes of the parameters, so that a file of the model has them."""
        return ()

    def stepped(self, step: int, loss: float) -> None:
        """After a step that was taken."""
        return None

    def training_metrics(self) -> dict[str, float]:
        """What else should be known of a round's training."""
        return {}

    def held_back(self, x: Any) -> tuple[float, float] | None:
        """Mean loss of the rows that are held back, and how much outputs differ by row (protocol.md).

        None where none are: then the judge goes by the loss of the first minibatch."""
        return None

    def evaluate(self, x: Any) -> dict[str, float] | None:
        """loss, accuracy and rows on local test data, and numbers of its own; None without any."""
        return None

    def take_steps(self, x: Any, task: LocalTask) -> tuple[Any, float | None]:
        """By its own optimizer, task.steps steps from x, fewer where they do not fit: `for step in task`.

        Where they came to, and plain steps that they amount to; None: as many."""
        raise UserError(f"A {type(self).__name__} has no optimizer of its own.")

    def load_state(self, state: Vector) -> None:
        """What its own optimizer kept of the round before; empty where there is nothing."""
        return None

    def saved_state(self) -> Vector | None:
        """What it keeps for the next round; None where it keeps nothing."""
        return None


def run(
    trainer: Trainer,
    task: LocalTask,
    model: GlobalModel,
    method: Method,
    own: tuple[Vector, Vector],
    gradient: Look | None = None,
) -> tuple[Reply, Vector]:
    """All of the local work: the protocol's lines, timed. The reply, and the client's state after it.

    `own` is the method's client state and that of its transmissions; empty where it has none.
    `gradient` stands in for the trainer's own, and then nothing else is asked of its rows: no reading, no
    buffers and no numbers of its own.
    """
    order, (client, memory) = task.order, own
    trainer.begin(order, model, method)
    anchor, server, mine, direction = (
        trainer.from_numpy(part) for part in (model.anchor, model.server, client, model.direction)
    )
    received = protocol.LocalState(anchor, server, mine, order.lr, float(order.round), cut=order.cut)
    judged = gradient is None and method.judges and order.held_back
    held = trainer.held_back(anchor) if judged else None
    carry = protocol.begin(method, protocol.receive(method, received._replace(held=held)))
    look = gradient or trainer.gradient
    before = plain_steps = None
    if trainer.own_optimizer:
        before = trainer.probe(carry.x, 0) if order.readings else None  # None, too, without gradients
        x, plain_steps = trainer.take_steps(carry.x, task)
        carry = carry._replace(x=x, end=x)
    else:
        carry = _stepped(look, trainer, method, carry, task)
    if not task.done:
        raise UserError("There was no batch to step by: this client's rows are at their end, or it has none.")
    if before is not None:
        after = task.look(trainer.probe, carry.x, 0)
        carry = carry._replace(loss=before[0], grad=before[1], last=after[1])
    elif order.readings and not trainer.own_optimizer:
        loss, grad = task.look(trainer.probe, carry.x, 0)
        _check(method, loss)
        carry = protocol.close(method, carry, loss, grad)
    upload, mine, taken = protocol.finish(method, carry, task.done, direction)
    lowered = Upload(trainer.to_numpy(upload.delta), trainer.to_numpy(upload.extra), float(upload.delta_sq))
    with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
        key = sampling.stream(*map(sampling.words, (order.seed, order.round, order.client)))
        parts, memory = protocol.encode(method.transmit, key, lowered, memory)
    reply = Reply(
        order.run,
        order.round,
        order.client,
        parts,
        model.buffers if gradient else trainer.buffers(),
        _reading(order.readings, taken, held),
        task.done,
        trainer.rows,
        task.step_seconds,
        plain_steps=plain_steps,
        skipped=task.skipped,
        metrics={} if gradient else trainer.training_metrics(),
        held_rows=0 if held is None else trainer.held_rows,
    )
    return reply, np.concatenate([trainer.to_numpy(mine), memory])


def _reading(asked: bool, taken: Reading | None, held: tuple[float, float] | None) -> Reading:
    """As it travels. Of a client without gradients the judge hears held-back rows or nothing (NaN): zeros
    would say that its network is dead."""
    if asked and taken is not None:
        return Reading(*map(float, taken))
    reading = Reading(*[0.0] * len(Reading._fields))
    if not asked:
        return reading
    loss, spread = held or (nan, nan)
    return reading._replace(held_loss=float(loss), spread=float(spread), way_begin=nan)


def _stepped(
    look: Look, trainer: Trainer, method: Method, carry: protocol.LocalState, task: LocalTask
) -> protocol.LocalState:
    """The method's own steps along these gradients. Without a learning rate the first one finds it."""
    opens = method.arithmetic.opening is not None and not task.order.lr_known
    for number in task:
        try:
            loss, grad = look(carry.x, number)
        except NoMoreData:
            break
        if not isfinite(loss):
            task.leave_out(loss)
            continue
        _check(method, loss)
        if opens and carry.grad is None:
            carry = protocol.trial_step(method, carry, loss, grad)
            # the trial's gradient is part of the first step's time, which `task` is taking
            again: Any = trainer.probe(carry.x, number)
            carry = protocol.open_rate(method, carry, again[1])
        else:
            first = carry.grad is None
            carry = (protocol.first_step if first else protocol.local_step)(method, carry, loss, grad)
        trainer.stepped(number, loss)
    return carry


def _check(method: Method, loss: float) -> None:
    if method.arithmetic.stride is not None and loss < 0:
        raise UserError(
            f"The loss is {loss:g}; {method.name} takes the length of its steps from it, so it must "
            "not be below zero: add a constant to it, or choose a method with an lr, such as fedavg."
        )
