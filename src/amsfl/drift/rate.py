"""The learning rate that readings allow: the cohort's Polyak step, moved slowly."""

from typing import Any

import numpy as np

from amsfl.core import Reading

FIRST = 10.0  # a cap that does not bind: in the first round every step takes its own Polyak length
SLOWEST, FASTEST = 0.7, 1.4  # a round's change: free, it collapses in the hardest settings


def next_rate(lr: float, reading: Reading, weights: Any) -> float:
    """clip(sum w loss / sum w ||g||^2, 0.7 lr, 1.4 lr), from the first minibatches at the anchor."""
    loss, square = np.asarray(reading.loss, float), np.asarray(reading.grad_sq, float)
    whole = np.isfinite(loss) & np.isfinite(square) & (square > 0)
    if not whole.any():
        return lr
    share = np.asarray(weights, float)[whole]
    step = float((share * loss[whole]).sum() / (share * square[whole]).sum())
    if lr == FIRST or step <= 0:
        return step if step > 0 else lr
    return float(np.clip(step, SLOWEST * lr, FASTEST * lr))
