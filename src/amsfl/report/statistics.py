"""The statistics of a comparison: means with intervals, paired tests, Holm's correction, margins of chance.

Intervals and tests are Student's t, of ratios on their logarithms, so what an interval says no test denies.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl.core import Score
from amsfl.core.records import Json

LEVEL = 0.95
ENOUGH = 3  # trials: two that agree by chance prove nothing
SURE = 0.05  # of p after Holm's correction
Z = 1.96  # of a 95% interval
CHANCE_AUC = 0.5
NOTHING = 0.01  # of a score without a margin of its own (of an error, its share): no better than the base


class Interval(NamedTuple):
    """A mean over trials and its 95% interval; the ends are NaN below two trials."""

    mean: float
    low: float = math.nan
    high: float = math.nan


def interval(values: Sequence[float], least: float = -math.inf, most: float = math.inf) -> Interval:
    """mean ± t(n-1) sd / sqrt(n), cut off where the quantity cannot be."""
    sample = np.asarray(values, float)
    sample = sample[~np.isnan(sample)]
    if len(sample) < 2:
        return Interval(float(sample[0])) if len(sample) else Interval(math.nan)
    from scipy.special import stdtrit  # Student's t; scipy.stats takes seconds to import

    mean, error = float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(len(sample))
    half = float(stdtrit(len(sample) - 1, (1 + LEVEL) / 2)) * error
    return Interval(mean, max(least, mean - half), min(most, mean + half))


def ratio(over: Sequence[float], under: Sequence[float]) -> Interval:
    """Geometric mean of paired ratios."""
    logs = interval(np.log(np.asarray(over, float) / np.asarray(under, float)).tolist())
    return Interval(*(math.exp(each) for each in logs))


def p_value(differences: Sequence[float]) -> float:
    """Two-sided p of a paired t test; NaN below ENOUGH pairs."""
    sample = np.round(np.asarray(differences, float), 12)  # no difference in the last bit is one
    if len(sample) < ENOUGH:
        return math.nan
    from scipy.special import stdtr

    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    if error == 0:
        return 1.0 if sample.mean() == 0 else 0.0
    return float(2 * stdtr(len(sample) - 1, -abs(sample.mean()) / error))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the k-th smallest of m is multiplied by m-k+1, never falling.

    Comparisons that could not be made (NaN) do not count.
    """
    ordered = sorted((value, place) for place, value in enumerate(p) if not math.isnan(value))
    adjusted, highest = [math.nan] * len(p), 0.0
    for rank, (value, place) in enumerate(ordered):
        highest = max(highest, min(1.0, value * (len(ordered) - rank)))
        adjusted[place] = highest
    return adjusted


def constant_score(score: Score, data: Json, split: str = "holdout") -> float | None:
    """Of always predicting the commonest class, or the mean, as a record's facts on its data have it."""
    return CHANCE_AUC if score.ranks else score.of((data.get("base") or {}).get(split, {}))


def chance_margin(score: Score, base: float, rows: int, details: Json) -> float:
    """How far above a constant prediction's score chance alone may lift one, on so many rows."""
    if score.name == "accuracy":  # binomial
        return Z * math.sqrt(base * (1 - base) / rows) if rows else NOTHING
    if score.ranks:
        return auc_margin(class_counts(details)) or NOTHING
    return NOTHING if score.most == 1 else NOTHING * base


def score_interval(score: Score, value: float, rows: int) -> tuple[float, float] | None:
    """95% of one model's score on so many rows: Wilson's of an accuracy, Olkin and Finn's of an R²."""
    if rows < 2 or score.name not in ("accuracy", "r2") or value < 0:
        return None
    if score.name == "r2":
        half = Z * 2 * math.sqrt(value / rows) * (1 - value)
        return value - half, min(1.0, value + half)
    middle = value + Z**2 / (2 * rows)
    half = Z * math.sqrt(value * (1 - value) / rows + (Z / (2 * rows)) ** 2)
    return (middle - half) / (1 + Z**2 / rows), (middle + half) / (1 + Z**2 / rows)


def class_counts(details: Json) -> list[int]:
    """Rows of every class on the hold-out, by a summary's details."""
    scores = details.get("splits", {}).get("holdout", {})
    return list(scores.get("rows") or map(sum, scores.get("confusion") or []))


def auc_margin(counts: Sequence[int]) -> float:
    """Of the mean AUC of random outputs: Mann and Whitney's variance, (n + 1) / (12 n1 n0), a class."""
    rows = sum(counts)
    sds = [math.sqrt((rows + 1) / (12 * n * (rows - n))) for n in counts if 0 < n < rows]
    return Z * float(np.mean(sds)) if sds else 0.0
