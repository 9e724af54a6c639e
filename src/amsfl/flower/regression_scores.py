"""Scores of predicted numbers, for servers that have the rows themselves and for clients that tell means."""

from typing import Any

import numpy as np

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
    found = errors(outputs, y, unit)
    spread = float(np.var(np.asarray(y, np.float64))) * unit**2
    return {
        "r2": 1 - found["mse"] / spread if spread else None,
        "mae": found["mae"],
        "rmse": found["mse"] ** 0.5,
        "loss": found["loss"],
    }


def are_numbers(y: Any) -> bool:
    """Whether labels are amounts: classes are whole numbers by their type."""
    return bool(np.issubdtype(np.asarray(y).dtype, np.floating))
