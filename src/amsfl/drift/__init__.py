"""Gradient-difference readings: per-client gain and drift."""

from amsfl.drift.estimates import Estimates, coefficients, known, read, start, update

__all__ = ["Estimates", "coefficients", "known", "read", "start", "update"]
