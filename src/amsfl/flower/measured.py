"""What a client of your own may say besides: how long its steps took, and how fast a step's worth fades.

with Measured(gradient, steps, lr) as reading:
    ...  # the local steps
metrics = {"num-examples": rows} | reading.metrics
"""

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

KEPT = (0.02, 0.999)  # what is left of a gradient along itself


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
