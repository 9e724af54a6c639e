"""Scores of models: for servers that have the rows themselves, and for clients that send means."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, MetricRecord

from amsfl.core.records import Array

Apply = Callable[[ArrayRecord, Any], Any]


def of_outputs(outputs: Any, y: Any, classes: int, unit: float = 1.0) -> dict[str, float]:
    """Loss and accuracy of logits; of amounts, in units of `unit`, half the plain square, mse and mae.

    Means by rows, so that those of several clients add up.
    """
    if classes:
        hits = (np.asarray(outputs).argmax(1) == np.asarray(y)).mean()
        return {"loss": cross_entropy(np.asarray(outputs, np.float64), y), "accuracy": float(hits)}
    off = np.asarray(outputs, np.float64).reshape(-1) - np.asarray(y, np.float64).reshape(-1)
    square = float((off**2).mean())
    return {"loss": square / 2, "mse": square * unit**2, "mae": float(np.abs(off).mean()) * unit}


def with_r2(scores: Mapping[str, float], y: Any, unit: float = 1.0) -> dict[str, float]:
    """Of amounts as simulations have them on record; without R² where all values are the same."""
    spread = float(np.var(np.asarray(y, np.float64))) * unit**2
    r2 = {"r2": 1 - scores["mse"] / spread} if spread else {}
    return {**r2, "mae": scores["mae"], "rmse": scores["mse"] ** 0.5, "loss": scores["loss"]}


def cross_entropy(logits: Array, y: Any) -> float:
    """The mean over rows, of logits in double precision."""
    top = logits.max(1, keepdims=True)
    likely = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
    return float(-likely[np.arange(len(y)), y].mean())


def evaluator(apply: Apply, x: Any, y: Any) -> Callable[[int, ArrayRecord], MetricRecord]:
    """Scores of `apply(arrays, rows)` on the server's own rows, as `evaluate_fn` of a Strategy's `start`.

    Args:
        apply: From the arrays and rows to logits, or to one number a row.
        x: The rows.
        y: Their labels. Whole numbers are classes, and scored by accuracy and cross-entropy; fractions (a
            float array) are amounts, and scored by R², mae, rmse and half the squared error.

    Returns:
        The function.
    """
    amounts = bool(np.issubdtype(np.asarray(y).dtype, np.floating))

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        scores = of_outputs(apply(arrays, x), y, classes=not amounts)
        return MetricRecord(with_r2(scores, y) if amounts else scores)

    return evaluate
