"""The learning rate: found by clients in the first round, halved by the judge, cooled at the end of a run.

A client's steps are min(lr, p loss/||g||^2) long, each by its own minibatch. lr, the longest, is first the
mean of what clients find by a trial step (methods/amsfl.py). It never rises. A line search at every round
would be short-sighted: at a floor of the loss it reads "too far" every time (Wu et al. 2018, arXiv
1803.02021).

p is 1 where clients agree: that is Polyak's length, after which no step goes away from a point of no loss.
Where they pull apart (few labels each), their mean moves little, gradients grow, and a cut that shrinks with
them leaves a network in ever sharper places. Four times that length is where plain gradient descent on a
parabola begins to leave a place that is too sharp for it. docs/research-log.md has the figures.
"""

from typing import NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.core.records import Array

COLDEST = 0.05  # of the rate, at the very end
REMEMBERED = 0.7  # of the running mean of agreements
AGREEING = 3.0  # steps are cut at Polyak's length as long as 1/agreement is below
FAR = 10.0  # times the usual first rate: a client whose features are all 0 finds one without an end


class Rate(NamedTuple):
    """lr None: not known yet; clients find their own, and take this part of it."""

    lr: float | None = None
    part: float = 1.0
    first: float | None = None  # the first one, for the summary
    agreement: float | None = None  # of uploads, the running mean; None: not known yet

    def lowered(self, factor: float) -> "Rate":
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


def agreed(old: Rate, agreement: float) -> Rate:
    """A <- 0.7 A + 0.3 ||D||^2 / sum_i u_i ||d_i||^2 (protocol.agreement); the first one as it is."""
    if not agreement > 0:
        return old
    now = min(agreement, 1.0)
    before = now if old.agreement is None else old.agreement
    return old._replace(agreement=REMEMBERED * before + (1 - REMEMBERED) * now)


def cut(rate: Rate, loosest: float) -> float:
    """clip(1/(3 A), 1, loosest): how many times Polyak's length a step may be."""
    if rate.agreement is None:
        return 1.0
    return float(min(max(1 / (AGREEING * rate.agreement), 1.0), max(loosest, 1.0)))


def cooled(lr: float, over: float, cooling: float) -> float:
    """lr clip((1 - f)/cooling, 0.05, 1), f the part of the run that is over."""
    return lr * min(max((1 - over) / cooling, COLDEST), 1.0)
