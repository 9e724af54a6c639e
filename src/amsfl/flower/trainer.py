"""What a site brings: a Trainer, and how a training loop of its own says how long its steps took.

with Measured(gradient, steps, lr) as reading:
    ...  # the local steps
metrics = {"num-examples": rows} | reading.metrics
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord

from amsfl.flower.arrays import FlatVector, flat, unflat

if TYPE_CHECKING:
    from amsfl.flower.client import LocalTask

KEPT = (0.02, 0.999)  # what is left of a gradient along itself


class Trainer:
    """What a client brings: rows, a model and how it is trained; the rest may be left out. Those that compute
    flat gradients are a GradientTrainer; what one needs for privacy, site_policy.py says."""

    rows: int  # how many it trains on: its weight

    def load(self, arrays: ArrayRecord, task: "LocalTask") -> None:
        """Take the model; a UserError where it is not this client's. No row is looked at."""
        raise NotImplementedError

    def train(self, task: "LocalTask") -> Mapping[str, float]:
        """Take the steps, `for step in task`; what the server should know besides: `fading`, metrics of one's
        own."""
        raise NotImplementedError

    def arrays(self) -> ArrayRecord:
        """The model as it is now: the same names, shapes and types as came."""
        raise NotImplementedError

    def held_back(self, task: "LocalTask") -> tuple[float, float] | None:
        """Mean loss of the share of rows (`task.held_share`) that it does not train on, and how much their
        outputs differ (docs/protocol.md); None without any."""
        return None

    def evaluate(self) -> Mapping[str, float] | None:
        """Scores on its own test rows, and `num-examples`; None without any."""
        return None


class GradientTrainer(Trainer):
    """Steps along flat gradients; `rows` and `gradient` are all that is needed."""

    x: FlatVector

    def gradient(self, x: FlatVector, step: int) -> tuple[float, FlatVector]:
        """Mean loss and gradient of a minibatch at the flat model; the same number, the same rows."""
        raise NotImplementedError

    def load(self, arrays: ArrayRecord, task: "LocalTask") -> None:
        self.task, self.came, self.x = task, arrays, flat(arrays)

    def train(self, task: "LocalTask") -> Mapping[str, float]:
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
