"""The statistics of a comparison: means with intervals, paired tests, and Holm's correction."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean over trials. `low` and `high` are Student's t interval, None below two trials."""

    mean: float
    low: float | None
    high: float | None
    sd: float | None
    n: int


def estimate(values: Sequence[float], least: float = -math.inf, most: float = math.inf) -> Estimate | None:
    """mean ± t(n-1) sd / sqrt(n) at 95%, cut off where the quantity cannot be."""
    if not values:
        return None
    sample = np.asarray(values, float)
    n, mean = len(sample), float(sample.mean())
    if n < 2:
        return Estimate(mean, None, None, None, n)
    from scipy.special import stdtrit  # Student's t; scipy.stats takes seconds to import

    sd = float(sample.std(ddof=1))
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * sd / math.sqrt(n)
    return Estimate(mean, max(least, mean - half), min(most, mean + half), sd, n)


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate | None:
    """Geometric mean of paired ratios, its interval from t on their logarithms."""
    logs = [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]
    log = estimate(logs)
    if log is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (log.low, log.high))
    return Estimate(math.exp(log.mean), low, high, None, log.n)


def wilcoxon(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Two-sided p of the signed-rank test on pairs; None below two pairs, 1 where all pairs are equal.

    scipy's default: exact while it can be (small samples without ties), normal approximation else.
    """
    if len(ours) < 2:
        return None
    from scipy import stats

    differences = np.asarray(ours, float) - np.asarray(theirs, float)
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences).pvalue)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction: the k-th smallest of m is multiplied by m-k+1, never falling.

    Comparisons that could not be made (None) do not count.
    """
    ordered = sorted((value, place) for place, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    highest = 0.0
    for rank, (value, place) in enumerate(ordered):
        highest = max(highest, min(1.0, value * (len(ordered) - rank)))
        adjusted[place] = highest
    return adjusted


def least_p(n: int) -> float:
    """The smallest two-sided p that n pairs can give: all differences of one sign, 2 of 2^n cases."""
    return min(1.0, 2.0 ** (1 - n))


def overlap(one: Estimate | None, two: Estimate | None) -> bool:
    """Whether intervals have a point in common; also where one has no interval."""
    if one is None or two is None:
        return True
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return True
    return one.low <= two.high and two.low <= one.high
