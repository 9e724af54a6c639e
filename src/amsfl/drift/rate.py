"""The learning rate: found by clients in the first round, halved by the judge, cooled at the end of a run.

A client's steps are min(lr, loss/||g||^2) long, each by its own minibatch. lr, the longest, is first the mean
of what clients find by a trial step (methods/amsfl.py). It never rises. A line search at every round would be
short-sighted: at a floor of the loss it reads "too far" every time (Wu et al. 2018, arXiv 1803.02021).
"""

from typing import NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.core.records import Array

COLDEST = 0.05  # of the rate, at the very end
FAR = 10.0  # times the usual first rate: a client whose features are all 0 finds one without an end


class Rate(NamedTuple):
    """lr None: not known yet; clients find their own, and take this part of it."""

    lr: float | None = None
    part: float = 1.0
    first: float | None = None  # the first one, for the summary

    def cut(self, factor: float) -> "Rate":
        """So much less of it, known or not."""
        if self.lr is None:
            return self._replace(part=self.part * factor)
        return self._replace(lr=self.lr * factor)


def opened(old: Rate, reading: Reading, weights: Array) -> Rate:
    """The first lr: the mean of what clients found, by weight, each at most FAR times the median of them (the
    lower one, by weight); as it was where nobody found any."""
    own, share = np.asarray(reading.opening, float), np.asarray(weights, float)
    whole = np.isfinite(own) & np.isfinite(np.asarray(reading.grad_sq, float)) & (own > 0)
    if old.lr is not None or not whole.any():
        return old
    own, share = own[whole], share[whole] / share[whole].sum()
    order = np.argsort(own)
    usual = own[order][np.searchsorted(np.cumsum(share[order]), 0.5)]
    lr = float(share @ np.minimum(own, FAR * usual))
    return old._replace(lr=lr, first=lr)


def cooled(lr: float, over: float, cooling: float) -> float:
    """lr clip((1 - f)/cooling, 0.05, 1), f the part of the run that is over."""
    return lr * min(max((1 - over) / cooling, COLDEST), 1.0)
