"""A fit as the one table of sites."""

import csv
import io

from amsfl.clock.sites import COLUMNS, NAME
from amsfl.study.calibration.fit import FittedSites


def as_csv(fitted: FittedSites) -> str:
    """The CSV that `amsfl run --profile`, `amsfl plan` and `amsfl deploy --profile` take."""
    held = {name: column for name in COLUMNS if (column := getattr(fitted, name, None)) is not None}
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([NAME, *held])
    for place, name in enumerate(fitted.names):
        writer.writerow([name, *(f"{float(column[place]):.6g}" for column in held.values())])
    return file.getvalue()
