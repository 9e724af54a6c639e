"""Scores of models, for servers that have the rows themselves and for clients that send means."""

from typing import Any

import numpy as np

from amsfl.core import UserError

Vector = np.ndarray[Any, np.dtype[Any]]


def errors(outputs: Any, y: Any, unit: float = 1.0) -> dict[str, float]:
    """mse and mae of one output a row, in units of `unit`, and the loss of clients: half the plain square.

    Means by rows, so that those of several clients add up.
    """
    off = np.asarray(outputs, np.float64).reshape(-1) - np.asarray(y, np.float64).reshape(-1)
    square = float((off**2).mean())
    return {"loss": square / 2, "mse": square * unit**2, "mae": float(np.abs(off).mean()) * unit}


def judged(outputs: Any, y: Any, unit: float = 1.0) -> dict[str, float | None]:
    """R², mean absolute and root mean squared error and the loss, as simulations have them on record.

    R² is None where all values are the same.
    """
    scores = errors(outputs, y, unit)
    spread = float(np.var(np.asarray(y, np.float64))) * unit**2
    return {
        "r2": 1 - scores["mse"] / spread if spread else None,
        "mae": scores["mae"],
        "rmse": scores["mse"] ** 0.5,
        "loss": scores["loss"],
    }


def cross_entropy(logits: Vector, y: Any) -> float:
    """The mean over rows, of logits in double precision."""
    top = logits.max(1, keepdims=True)
    likely = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
    return float(-likely[np.arange(len(y)), y].mean())


def are_numbers(y: Any) -> bool:
    """Whether labels are amounts: classes are whole numbers by their type."""
    return bool(np.issubdtype(np.asarray(y).dtype, np.floating))


class ScoreSums:
    """Scores by task, which the shapes of outputs and targets say: classes, one logit, or numbers.

    Outputs with one axis more than the targets are logits of classes: accuracy. Outputs of the targets' own
    size are one logit where all targets are 0 or 1 (accuracy again), else a regression (mean squared and
    absolute error).
    """

    def __init__(self) -> None:
        self.rows = self.count = 0
        self.hits = self.squares = self.off = 0.0
        self.classes, self.binary = False, True

    def add(self, outputs: Any, targets: Any) -> None:
        self.rows += len(targets)
        self.count += targets.numel()
        if outputs.ndim == targets.ndim + 1 and outputs.shape[1] > 1:
            self.classes = True
            self.hits += float((outputs.argmax(1) == targets).sum())
            return
        if outputs.numel() != targets.numel():
            raise UserError(
                f"Outputs of shape {tuple(outputs.shape)} have no score against targets of "
                f"{tuple(targets.shape)}: give classes one logit each, or as many outputs as targets."
            )
        predicted = outputs.reshape(targets.shape)
        self.binary &= bool(((targets == 0) | (targets == 1)).all())
        self.hits += float(((predicted > 0) == (targets > 0)).sum())
        self.squares += float(((predicted - targets) ** 2).sum())
        self.off += float((predicted - targets).abs().sum())

    def scores(self) -> dict[str, float]:
        count = self.count
        if not count:
            return {}
        if self.classes or self.binary:
            return {"accuracy": self.hits / count}
        return {"mse": self.squares / count, "mae": self.off / count}
