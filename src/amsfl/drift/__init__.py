"""Gradient-difference readings: per-client gain and drift, and the learning rate they allow."""

from amsfl.drift.estimates import Estimates, coefficients, read, start, update
from amsfl.drift.rate import FIRST as FIRST_RATE
from amsfl.drift.rate import next_rate

__all__ = ["FIRST_RATE", "Estimates", "coefficients", "next_rate", "read", "start", "update"]
