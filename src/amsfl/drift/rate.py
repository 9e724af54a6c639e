"""The learning rate that readings allow: the federation's Polyak step, moved slowly.

A client's steps are min(lr, loss/||g||^2) long, each by its own minibatch. lr, the cap, follows the same
ratio of all clients together, so that it can fall where the loss has a floor (noisy labels) and rise where
it has none. Free to jump, it collapses in the hardest settings; hence the limits.
"""

from typing import NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.core.records import Array

LIMIT = 0.7  # a round changes the cap by this factor at most, down or (1/0.7) up
HALF = 0.5  # of the old mean loss and mean squared gradient norm that stays


class Rate(NamedTuple):
    """lr None: not known yet; every client caps its first round's steps by its own first minibatch."""

    lr: float | None = None
    loss: float = 0.0
    grad_sq: float = 0.0


def next_rate(old: Rate, reading: Reading, weights: Array, opening: float = 1.0) -> Rate:
    """lr+ = clip(E[loss] / E[||g||^2], 0.7 lr, lr / 0.7), from the first minibatches at the anchor.

    The first lr is `opening` E[loss / ||g||^2], the mean of what the clients themselves went by.
    """
    loss, square = np.asarray(reading.loss, float), np.asarray(reading.grad_sq, float)
    whole = np.isfinite(loss) & np.isfinite(square) & (square > 0)
    if not whole.any():
        return old
    share = np.asarray(weights, float)[whole]
    share, loss, square = share / share.sum(), loss[whole], square[whole]
    fresh = float(share @ loss), float(share @ square)
    if old.lr is None:
        return Rate(opening * float(share @ (loss / square)), *fresh)
    mean = HALF * old.loss + (1 - HALF) * fresh[0], HALF * old.grad_sq + (1 - HALF) * fresh[1]
    return Rate(min(max(mean[0] / mean[1], LIMIT * old.lr), old.lr / LIMIT), *mean)
