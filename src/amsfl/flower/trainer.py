"""What a site brings, a Trainer; what it is asked, a LocalTask; and how a training loop of its own says how
long its steps took.

with Measured(gradient, steps, lr) as reading:
    ...  # the local steps
metrics = {"num-examples": rows} | reading.metrics
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.flower.arrays import FlatVector, Part, flat, unflat

KEPT = (0.02, 0.999)  # what is left of a gradient along itself
Order = dict[str, Any]  # what the server asks for, field by field (client.py)


class LocalTask:
    """What is asked of a client this round, and what came of it.

    for step in task:  # 0, 1, ...: as many as were asked for, fewer where the site's policy stops them
        ...

    Every turn of the loop is timed, and slowed where the client is to be slow. `steps`, `lr`, `round` (from
    0), `batch` and `seed` are the server's, `node` is Flower's node-config.
    """

    def __init__(self, order: Order, correction: Part | None, context: Context):
        self.order, self.correction, self.private = order, correction, bool(order["privacy"])
        self.steps, self.lr, self.mu = order["local-steps"], order["lr"], order["proximal-mu"]
        self.round = order["server-round"] - 1
        self.draw = self.round + (order["repeat"] << 20)  # no round's, where it is asked again
        self.seed, self.batch, self.held_share = order["seed"], order["batch-size"], order["held-back"]
        self.node: Mapping[str, Any] = dict(context.node_config)
        self.client = int(self.node.get("partition-id", context.node_id % 2**31))
        (self.slowdown, self.least), self.seconds = pace_of(context), math.inf
        self.timed: list[float] = []
        self.done = 0

    def step(self, y: Part, anchor: Part, grad: Part) -> Part:
        """y - lr (g + mu (y - a) + correction)."""
        way = grad + self.mu * (y - anchor) if self.mu else grad
        way = way if self.correction is None else way + self.correction
        return np.asarray(y - np.float32(self.lr) * way, np.float32)

    def __iter__(self) -> Iterator[int]:
        while self.done < self.steps and sum(self.timed) + float(np.mean(self.timed or 0)) <= self.seconds:
            started = time.perf_counter()
            yield self.done
            took = time.perf_counter() - started
            time.sleep(max(self.slowdown * max(took, self.least) - took, 0.0))
            self.timed.append(time.perf_counter() - started)
            self.done += 1

    def check_loss(self, loss: float) -> None:
        """A UserError where it is none: a step by it would lose the model."""
        if not math.isfinite(loss):
            how = "lower the learning rate, clip the gradients, or look for rows that are not finite"
            raise UserError(f"The loss was {loss} in step {self.done}; {how}.")

    @property
    def key(self) -> Any:
        """Of the minibatches' row numbers: of (seed, round, client) alone, so that a round run again is the
        same."""
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            return sampling.stream(*map(sampling.words, (self.seed, self.draw, self.client)))


def pace_of(context: Context) -> tuple[float, float]:
    """A handicap, to make equal machines unequal: every step lasts `slowdown` times as long as it took, and
    at least that many times `step-seconds`. Both are of the node-config, or of the run-config, where
    `slowdowns` has one for each partition ("1,2,4")."""
    node, run = context.node_config, context.run_config
    each = [float(part) for part in str(run.get("slowdowns", "")).split(",") if part] or [1.0]
    slowdown: Any = node.get("slowdown", each[int(node.get("partition-id", 0)) % len(each)])
    least: Any = node.get("step-seconds", run.get("step-seconds", 0.0))
    return float(slowdown), float(least)


class Trainer:
    """What a client brings: rows, a model and how it is trained; the rest may be left out. Those that compute
    flat gradients are a GradientTrainer."""

    rows: int  # how many it trains on: its weight
    x: FlatVector  # the flat model, where it can keep rows private: set after every step

    def load(self, arrays: ArrayRecord, task: LocalTask) -> None:
        """Take the model; a UserError where it is not this client's. No row is looked at."""
        raise NotImplementedError

    def train(self, task: LocalTask) -> Mapping[str, float]:
        """Take the steps, `for step in task`; what the server should know besides: `fading`, metrics of one's
        own."""
        raise NotImplementedError

    def arrays(self) -> ArrayRecord:
        """The model as it is now: the same names, shapes and types as came."""
        raise NotImplementedError

    def held_back(self, task: LocalTask) -> tuple[float, float] | None:
        """Mean loss of the share of rows (`task.held_share`) that it does not train on, and how much their
        outputs differ (docs/protocol.md); None without any."""
        return None

    def evaluate(self) -> Mapping[str, float] | None:
        """Scores on its own test rows, and `num-examples`; None without any."""
        return None

    def check_rows(self) -> None:
        """Before anything is spent: a UserError where rows have no gradients of their own."""
        name = type(self).__name__
        raise UserError(f"A {name} has no gradients row by row; use torch_client or jax_client.")

    def row_sum(self, x: Any, places: Any, present: Any, private: RowPrivacy) -> Any:
        """The sum of the gradients at x of those rows that are present, each cut as `private` says. `places`
        are always as many: how long it takes does not tell how many rows are in a minibatch."""
        raise NotImplementedError


class GradientTrainer(Trainer):
    """Steps along flat gradients; `rows` and `gradient` are all that is needed."""

    def gradient(self, x: FlatVector, step: int) -> tuple[float, FlatVector]:
        """Mean loss and gradient of a minibatch at the flat model; the same number, the same rows."""
        raise NotImplementedError

    def load(self, arrays: ArrayRecord, task: LocalTask) -> None:
        self.task, self.came, self.x = task, arrays, flat(arrays)

    def train(self, task: LocalTask) -> Mapping[str, float]:
        first, anchor = None, self.x
        for number in task:
            loss, grad = self.gradient(self.x, number)
            task.check_loss(loss)
            first = grad if first is None else first
            self.x = task.step(self.x, anchor, grad)
        if first is None:
            return {}
        return fading(first, self.gradient(self.x, 0)[1], task.done, task.lr)

    def arrays(self) -> ArrayRecord:
        return unflat(self.x, self.came)


class Measured:
    """`metrics` of a client's local steps, for AMSFL.

    Args:
        gradient: `gradient()` returns the gradient of one fixed minibatch at the model as it is now, an array
            or a list of them, torch's or numpy's. It is asked twice, before the steps and after them, and is
            not part of their seconds: draw that minibatch apart from those of the steps. None: seconds alone.
        steps: How many there will be.
        lr: Their learning rate.
    """

    def __init__(self, gradient: Callable[[], Any] | None = None, steps: int = 1, lr: float = 1.0):
        self.gradient, self.steps, self.lr, self.metrics = gradient, steps, lr, dict[str, float]()

    def __enter__(self) -> "Measured":
        self.before = self.gradient() if self.gradient else None
        self.began = time.perf_counter()
        return self

    def __exit__(self, *error: Any) -> None:
        self.metrics = {"train-seconds": max(time.perf_counter() - self.began, 1e-9)}
        if self.gradient and error[0] is None:
            self.metrics |= fading(self.before, self.gradient(), self.steps, self.lr)


def fading(before: Any, after: Any, steps: int, lr: float) -> dict[str, float]:
    """-ln(<g, h>/||g||^2)/(t lr), of one minibatch's gradients before and after t steps."""
    square, along = dot(before, before), dot(before, after)
    if not (square > 0 and math.isfinite(square) and math.isfinite(along)):
        return {}
    kept = min(max(along / square, KEPT[0]), KEPT[1])
    return {"fading": -math.log(kept) / (steps * lr)}


def dot(one: Any, other: Any) -> float:
    """<one, other>, of arrays or of lists of them."""
    if not hasattr(one, "shape") and isinstance(one, Iterable):
        return sum(dot(*pair) for pair in zip(one, other, strict=True))
    return float((one * other).sum())
