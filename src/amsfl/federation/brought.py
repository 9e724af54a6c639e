"""What a user brings in place of what the settings name."""

from collections.abc import Mapping
from typing import Any

from amsfl.core import Combine, Transmit, UserError
from amsfl.data import Dataset
from amsfl.engines.models import Model
from amsfl.federation.own_data import check_dataset
from amsfl.federation.setup import Own
from amsfl.methods import Method
from amsfl.schedule import Policy

OF_NAMED_DATA = ("data", "data_dir", "label", "client_column", "binary", "task")


def brought(
    settings: Mapping[str, Any], dataset: Dataset | None = None, network: Model | None = None
) -> tuple[Own, dict[str, Any]]:
    """What among the settings is an object and no name, and the settings without it."""
    kinds = {"method": Method, "policy": Policy, "combine": Combine, "transmit": Transmit}
    objects = {key: settings[key] for key, kind in kinds.items() if isinstance(settings.get(key), kind)}
    rest = {key: value for key, value in settings.items() if key not in objects}
    for key in [*(OF_NAMED_DATA if dataset else ()), *(("model",) if network else ())]:
        if key in rest:
            raise UserError(f"Setting {key!r} and an object of your own in its place: leave one of them out.")
    return Own(dataset and check_dataset(dataset), network, **objects), rest
