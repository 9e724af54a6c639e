"""What a user brings in place of what the settings name."""

from pathlib import Path
from typing import NamedTuple

from amsfl.clock import RoundEnd
from amsfl.core import Combine, Transmit, UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.data import Dataset, Frame
from amsfl.data.recipe import ColumnOptions
from amsfl.engines.models import Model
from amsfl.methods import Method
from amsfl.planning import Policy
from amsfl.settings.custom_data import check_dataset
from amsfl.settings.definitions import OF_ROWS

LABELS = ("label", "client_column", "task")
OF_TABLES = OF_ROWS - {"data"}


class CustomParts(NamedTuple):
    """What a user brings in place of what the settings name; the settings then hold its name alone."""

    dataset: Dataset | None = None
    network: Model | None = None
    method: Method | None = None
    policy: Policy | None = None
    robust: Combine | None = None
    transmit: Transmit | None = None
    round_end: RoundEnd | None = None

    def names(self) -> dict[str, str]:
        """The settings that follow from what was brought.

        Returns:
            Settings by name.
        """
        places = {"dataset": "data", "network": "model"}  # the others are called as their setting is
        own = {key: part for key, part in self._asdict().items() if part is not None}
        return {places.get(key, key): part.name for key, part in own.items()}


def table_of(settings: JsonMapping, given: Dataset | Frame | None) -> tuple[Json, Dataset | None]:
    """A data frame, as `dataset` or as the setting `data`, becomes a Dataset by the settings of tables.

    The settings come back without those.
    """
    rest = dict(settings)
    data = rest.get("data")
    if isinstance(data, Path):
        rest["data"] = str(data)
    elif data is not None and not isinstance(data, str):
        if given is not None:
            raise UserError("Both data and dataset are objects of your own: leave one of them out.")
        given = rest.pop("data")
    if (
        given is None
        or isinstance(given, Dataset)
        or not (hasattr(given, "columns") or isinstance(given, dict))
    ):
        return rest, given  # type: ignore[return-value]  # check_dataset refuses all else
    from amsfl.data.table import load_table  # here: pandas is slow to import, and named data need none

    settings_of_table = {key: rest.pop(key) for key in OF_TABLES if rest.get(key) is not None}
    labels = {key: settings_of_table.pop(key) for key in LABELS if key in settings_of_table}
    return rest, load_table(given, options=ColumnOptions(**settings_of_table), **labels)


def split_custom(
    settings: JsonMapping, dataset: Dataset | Frame | None = None, network: Model | None = None
) -> tuple[CustomParts, Json]:
    """What among the settings is an object and no name, and the settings without it."""
    settings, own = table_of(settings, dataset)
    kinds: dict[str, type] = {
        "method": Method,
        "policy": Policy,
        "robust": Combine,
        "transmit": Transmit,
        "round_end": RoundEnd,
    }
    objects = {key: settings[key] for key, kind in kinds.items() if isinstance(settings.get(key), kind)}
    rest = {key: value for key, value in settings.items() if key not in objects}
    for key in [*(sorted(OF_ROWS) if own is not None else ()), *(("model",) if network else ())]:
        if key in rest:
            raise UserError(f"Setting {key!r} and an object of your own in its place: leave one of them out.")
    return CustomParts(None if own is None else check_dataset(own), network, **objects), rest
