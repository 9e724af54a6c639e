"""From records of real runs to a table of sites, and how well the table predicts the records."""

from amsfl.study.calibration.check import CalibrationCheck, Prediction, check
from amsfl.study.calibration.fit import FittedSites, as_csv, calibrate, fit
from amsfl.study.calibration.timings import ClientRound, RunTimings, timings_of

__all__ = [
    "CalibrationCheck",
    "ClientRound",
    "FittedSites",
    "Prediction",
    "RunTimings",
    "as_csv",
    "calibrate",
    "check",
    "fit",
    "timings_of",
]
