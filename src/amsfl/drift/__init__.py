"""Gradient-difference readings: gain and drift of clients, the learning rate they allow, what to believe."""

from amsfl.drift import plausibility
from amsfl.drift.estimates import Estimates, coefficients, read, start, sum_of, update
from amsfl.drift.gda import of_upload, reading
from amsfl.drift.rate import Rate, next_rate

__all__ = [
    "Estimates",
    "Rate",
    "coefficients",
    "next_rate",
    "of_upload",
    "plausibility",
    "read",
    "reading",
    "start",
    "sum_of",
    "update",
]
