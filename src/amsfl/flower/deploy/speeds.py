"""A table of sites as handicaps of equal machines: how slow each client of a deployment is."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amsfl.clock import read_sites
from amsfl.clock.sites import Sites
from amsfl.core import Remark, UserError
from amsfl.federation import serve_config
from amsfl.federation.setup import client_names, load_data

RUN = ("resume", "force", "track")  # what is asked of one start, and is no setting of the run


def handicaps(settings: Mapping[str, Any], path: Path) -> tuple[list[float], float]:
    """How many times slower than the fastest each client is, and the seconds of the fastest one's step.

    Links are real here, so the table's other columns have no effect.
    """
    config = serve_config({key: value for key, value in settings.items() if key not in RUN})
    table = _table(path)
    names = client_names(config, load_data(config))
    return _slowed(table, table.of(len(names) or config.clients, names).columns["step_seconds"])


def in_order(path: Path) -> tuple[list[float], float]:
    """The same for an app of the user's own, whose clients have numbers: the table's rows in their order."""
    table = _table(path)
    if table.clients:
        raise UserError(
            f"{path} names its clients, and those of your own app have numbers, their partition-id; leave "
            "the column 'client' out, with the rows in that order."
        )
    return _slowed(table, table.columns["step_seconds"])


def _table(path: Path) -> Sites:
    table = read_sites(path)
    table.need("step_seconds")
    return table


def _slowed(table: Sites, seconds: Any) -> tuple[list[float], float]:
    unused = table.unused({"step_seconds"})
    if unused:
        warnings.warn(unused, Remark, stacklevel=2)
    fastest = float(seconds.min())
    return [float(each) for each in seconds / fastest], fastest
