"""A table of sites as handicaps of equal machines: how slow each client of a deployment is."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amsfl.clock import read_sites
from amsfl.core import Remark
from amsfl.federation import serve_config
from amsfl.federation.setup import client_names, load_data

RUN = ("resume", "force", "track")  # what is asked of one start, and is no setting of the run


def handicaps(settings: Mapping[str, Any], path: Path) -> tuple[list[float], float]:
    """How many times slower than the fastest each client is, and the seconds of the fastest one's step.

    Links are real here, so the table's other columns have no effect.
    """
    config = serve_config({key: value for key, value in settings.items() if key not in RUN})
    table = read_sites(path)
    table.need("step_seconds")
    names = client_names(config, load_data(config))
    seconds = table.of(len(names) or config.clients, names).columns["step_seconds"]
    unused = table.unused({"step_seconds"})
    if unused:
        warnings.warn(unused, Remark, stacklevel=2)
    fastest = float(seconds.min())
    return [float(each) for each in seconds / fastest], fastest
