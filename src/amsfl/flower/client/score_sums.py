"""Scores of a model on a client's test rows, by what its outputs and targets look like."""

from typing import Any

from amsfl.core import UserError


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
        told = outputs.reshape(targets.shape)
        self.binary &= bool(((targets == 0) | (targets == 1)).all())
        self.hits += float(((told > 0) == (targets > 0)).sum())
        self.squares += float(((told - targets) ** 2).sum())
        self.off += float((told - targets).abs().sum())

    def scores(self) -> dict[str, float]:
        count = self.count
        if not count:
            return {}
        if self.classes or self.binary:
            return {"accuracy": self.hits / count}
        return {"mse": self.squares / count, "mae": self.off / count}
