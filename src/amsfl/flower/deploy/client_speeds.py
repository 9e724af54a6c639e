"""A table of sites as handicaps of equal machines: how slow each client of a deployment is."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.clock import read_sites
from amsfl.clock.profile import SPENDING
from amsfl.clock.sites import Sites
from amsfl.core import Remark, UserError
from amsfl.simulation import serve_config
from amsfl.simulation.components import client_names, load_data

SPENDS = {*SPENDING, "epsilon"}
RUN = (
    "resume",
    "force",
    "track",
    "log",
    "metrics_port",
)  # what is asked of one start, and is no setting of the run


class ClientSpeeds(NamedTuple):
    slowdowns: list[float]  # how many times slower than the fastest each client is
    step_seconds: float  # of the fastest one's step
    spends: list[dict[str, float]] = []  # noqa: RUF012 (nobody changes it); what each says of joules, money and privacy


def speeds_by_name(settings: Mapping[str, Any], path: Path) -> ClientSpeeds:
    """What a table says of each client's speed, and of what it spends.

    Links are real here, so the table's other columns have no effect.
    """
    config = serve_config({key: value for key, value in settings.items() if key not in RUN})
    table = _table(path)
    names = client_names(config, load_data(config))
    return _slowed(table, table.of(len(names) or config.clients, names).columns)


def speeds_in_order(path: Path) -> ClientSpeeds:
    """The same for an app of the user's own, whose clients have numbers: the table's rows in their order."""
    table = _table(path)
    if table.clients:
        raise UserError(
            f"{path} names its clients, and those of your own app have numbers, their partition-id; leave "
            "the column 'client' out, with the rows in that order."
        )
    return _slowed(table, table.columns)


def _table(path: Path) -> Sites:
    table = read_sites(path)
    table.need("step_seconds")
    return table


def _slowed(table: Sites, columns: Mapping[str, Any]) -> ClientSpeeds:
    unused, seconds = table.unused({"step_seconds", *SPENDS}), columns["step_seconds"]
    if unused:
        warnings.warn(unused, Remark, stacklevel=2)
    fastest = float(seconds.min())
    columns_held = {name: columns[name].tolist() for name in sorted(SPENDS & {*columns})}
    spends = [{name: column[place] for name, column in columns_held.items()} for place in range(len(seconds))]
    return ClientSpeeds([float(each) for each in seconds / fastest], fastest, spends if columns_held else [])
