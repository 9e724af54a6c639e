"""Gradient-difference readings: gain and fading of clients, what to believe, and the judge."""

from amsfl.drift import plausibility
from amsfl.drift.estimates import Estimates, gain_and_fading, gain_and_kept, start, sum_of, update
from amsfl.drift.gda import measured, take_reading
from amsfl.drift.judge import Judge, describe, is_whole, judge_round, new_judge

__all__ = [
    "Estimates",
    "Judge",
    "describe",
    "gain_and_fading",
    "gain_and_kept",
    "is_whole",
    "judge_round",
    "measured",
    "new_judge",
    "plausibility",
    "start",
    "sum_of",
    "take_reading",
    "update",
]
