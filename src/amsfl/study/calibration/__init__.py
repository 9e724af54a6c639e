"""From records of real runs to a table of sites, and how well the one foretells the other."""

from amsfl.study.calibration.check import Checked, Figure, check
from amsfl.study.calibration.fit import Fitted, calibrate, fit
from amsfl.study.calibration.seen import Seen, Trip, seen
from amsfl.study.calibration.table import as_csv

__all__ = ["Checked", "Figure", "Fitted", "Seen", "Trip", "as_csv", "calibrate", "check", "fit", "seen"]
