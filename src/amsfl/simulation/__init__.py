"""The round, its record, and `run`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from amsfl.settings.definitions import RunConfig, ServeConfig, Training
from amsfl.settings.parse import make_config, read_toml, serve_config

if TYPE_CHECKING:
    from amsfl.settings.custom import CustomParts
    from amsfl.simulation.api import resume, run, run_batch
    from amsfl.simulation.result import Result

_HOMES = {
    "CustomParts": "amsfl.settings.custom",
    "Result": "amsfl.simulation.result",
    "resume": "amsfl.simulation.api",
    "run": "amsfl.simulation.api",
    "run_batch": "amsfl.simulation.api",
}


def __getattr__(name: str) -> Any:
    # settings are checked without jax, which takes most of a second to import
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'amsfl.simulation' has no attribute {name!r}")
