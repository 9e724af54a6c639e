"""Federated methods: pure arithmetic on flat vectors, one file each, one table for all."""

import inspect
from collections.abc import Callable

from amsfl.core import UserError, nearest
from amsfl.methods.amsfl import amsfl
from amsfl.methods.base import Distillation, Method
from amsfl.methods.extrapolate import extrapolate
from amsfl.methods.fedavg import fedavg
from amsfl.methods.fedcsda import fedcsda
from amsfl.methods.feddyn import feddyn
from amsfl.methods.fednova import fednova
from amsfl.methods.fedprox import fedprox
from amsfl.methods.scaffold import scaffold

METHODS: dict[str, Callable[..., Method]] = {
    "fedavg": fedavg,
    "fedprox": fedprox,
    "fednova": fednova,
    "scaffold": scaffold,
    "feddyn": feddyn,
    "fedcsda": fedcsda,
    "amsfl": amsfl,
}

TITLES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fednova": "FedNova",
    "scaffold": "SCAFFOLD",
    "feddyn": "FedDyn",
    "fedcsda": "FedCSDA",
    "amsfl": "AMSFL",
}


def make(name: str, options: dict[str, float] | None = None, extrapolation: float = 0.0) -> Method:
    """The method of that name with its hyper-parameters; `extrapolation` > 1 adds FedExP up to that cap."""
    if name not in METHODS:
        raise UserError(f"Unknown method {name!r}{nearest(name, METHODS)}.")
    factory, options = METHODS[name], options or {}
    known = inspect.signature(factory).parameters
    for option in options:
        if option not in known:
            has = nearest(option, known) if known else " (it has none)"
            raise UserError(f"Method {name!r} has no option {option!r}{has}.")
    method = factory(**options)
    return extrapolate(method, extrapolation) if extrapolation > 1 else method


__all__ = ["METHODS", "TITLES", "Distillation", "Method", "extrapolate", "make"]
