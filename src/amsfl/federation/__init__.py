"""The round, its record, and `run`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from amsfl.federation.config import RunConfig, ServeConfig, Training
from amsfl.federation.given import make_config, read_toml, serve_config

if TYPE_CHECKING:
    from amsfl.federation.api import resume, run
    from amsfl.federation.batch import run_batch, run_trials
    from amsfl.federation.result import Result
    from amsfl.federation.setup import Own

__all__ = [
    "Own",
    "Result",
    "RunConfig",
    "ServeConfig",
    "Training",
    "make_config",
    "read_toml",
    "resume",
    "run",
    "run_batch",
    "run_trials",
    "serve_config",
]

_HOMES = {
    "Own": "setup",
    "Result": "result",
    "resume": "api",
    "run": "api",
    "run_batch": "batch",
    "run_trials": "batch",
}


def __getattr__(name: str) -> Any:
    # settings are checked without jax, which takes most of a second to import
    if name in _HOMES:
        return getattr(import_module(f"amsfl.federation.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'amsfl.federation' has no attribute {name!r}")
