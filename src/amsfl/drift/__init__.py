"""Gradient-difference readings: per-client gain and drift, and the learning rate they allow."""

from amsfl.drift.estimates import Estimates, coefficients, read, start, update
from amsfl.drift.gda import reading
from amsfl.drift.rate import Rate, next_rate

__all__ = ["Estimates", "Rate", "coefficients", "next_rate", "read", "reading", "start", "update"]
