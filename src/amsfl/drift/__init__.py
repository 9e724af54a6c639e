"""Gradient-difference readings: gain and drift of clients, the learning rate they allow, what to believe."""

from amsfl.drift import plausibility
from amsfl.drift.estimates import Estimates, coefficients, gain_and_kept, start, sum_of, update
from amsfl.drift.gda import reading_of_upload, take_reading
from amsfl.drift.rate import Rate, next_rate

__all__ = [
    "Estimates",
    "Rate",
    "coefficients",
    "gain_and_kept",
    "next_rate",
    "plausibility",
    "reading_of_upload",
    "start",
    "sum_of",
    "take_reading",
    "update",
]
