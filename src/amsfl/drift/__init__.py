"""Gradient-difference readings: gain and drift of clients, the learning rate they allow, what to believe."""

from amsfl.drift import plausibility
from amsfl.drift.estimates import Estimates, coefficients, gain_and_kept, start, sum_of, update
from amsfl.drift.gda import reading_of_upload, take_reading
from amsfl.drift.judge import Judge, describe, is_whole, judge_round, new_judge
from amsfl.drift.rate import Rate, agreed, cooled, cut, opened

__all__ = [
    "Estimates",
    "Judge",
    "Rate",
    "agreed",
    "coefficients",
    "cooled",
    "cut",
    "describe",
    "gain_and_kept",
    "is_whole",
    "judge_round",
    "new_judge",
    "opened",
    "plausibility",
    "reading_of_upload",
    "start",
    "sum_of",
    "take_reading",
    "update",
]
