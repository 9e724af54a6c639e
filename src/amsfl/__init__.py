"""Federated learning where every client gets its own number of local steps, by what a second is worth.

    import amsfl

    result = amsfl.run(method="amsfl", data="digits", rounds=30)

run, run_batch, sweep and resume train; Dataset, Model, Method, Policy and RoundEnd are what may be your
own; a Result is what a run leaves. A mistake raises UserError. Settings: docs/settings.md.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from amsfl.core import VERSION as __version__

if TYPE_CHECKING:
    from amsfl.clock import RoundEnd
    from amsfl.core import Remark, UserError
    from amsfl.data import Dataset
    from amsfl.engines.models import Model
    from amsfl.methods import Facts, Method
    from amsfl.planning import Policy
    from amsfl.simulation import Result, resume, run, run_batch
    from amsfl.simulation.estimator import FederatedClassifier, FederatedRegressor
    from amsfl.study.sweep import sweep

__all__ = [
    "Dataset",
    "Facts",
    "FederatedClassifier",
    "FederatedRegressor",
    "Method",
    "Model",
    "Policy",
    "Remark",
    "Result",
    "RoundEnd",
    "UserError",
    "__version__",
    "resume",
    "run",
    "run_batch",
    "sweep",
]

_HOMES = {
    "clock": "RoundEnd",
    "core": "Remark UserError",
    "data": "Dataset",
    "engines.models": "Model",
    "methods": "Facts Method",
    "planning": "Policy",
    "simulation": "Result resume run run_batch",
    "simulation.estimator": "FederatedClassifier FederatedRegressor",
    "study.sweep": "sweep",
}
_PLACES = {name: f"amsfl.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    # jax takes most of a second to import: only those who run something pay for it
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if find_spec(f"amsfl.{name}"):  # a room
        return import_module(f"amsfl.{name}")
    raise AttributeError(f"module 'amsfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
