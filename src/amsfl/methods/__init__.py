"""Federated methods: pure arithmetic on flat vectors, one file each, one table for all."""

from collections.abc import Mapping, Sequence
from inspect import signature

from amsfl.core import Kind, UserError
from amsfl.methods.amsfl import amsfl, paper, planned_steps
from amsfl.methods.arithmetic import Arithmetic, Distillation, Number, Vector, tuned
from amsfl.methods.base import Cost, Facts, Method
from amsfl.methods.client_momentum import with_momentum
from amsfl.methods.fedcsda import fedcsda
from amsfl.methods.known import extrapolate, fedavg, feddyn, fednova, fedprox, scaffold
from amsfl.methods.late import fedasync, fedbuff, fedcompass
from amsfl.methods.server_optimizers import (
    ServerOptimizer,
    adam,
    fedadam,
    fedavgm,
    fedyogi,
    heavy_ball,
    optimize,
    yogi,
)

METHODS: Kind[Method] = Kind(
    "method",
    Method,
    {
        "fedavg": fedavg,
        "fedprox": fedprox,
        "fednova": fednova,
        "scaffold": scaffold,
        "feddyn": feddyn,
        "fedcsda": fedcsda,
        "fedavgm": fedavgm,
        "fedadam": fedadam,
        "fedyogi": fedyogi,
        "fedasync": fedasync,
        "fedbuff": fedbuff,
        "fedcompass": fedcompass,
        "amsfl": amsfl,
        "amsfl-steps": planned_steps,
        "amsfl-paper": paper,
    },
)
SERVER_OPTIMIZERS: Kind[ServerOptimizer] = Kind(
    "server optimizer",
    ServerOptimizer,
    {"momentum": heavy_ball, "adam": adam, "yogi": yogi},
)


def make(
    method_or_name: str | Method, options: Mapping[str, float] | None = None, extrapolation: float = 0.0
) -> Method:
    """A method by name with its options, or as it was passed; `extrapolation` > 1 adds FedExP.

    Args:
        method_or_name: A name, `module:attribute`, or a Method.
        options: Hyper-parameters by name.
        extrapolation: FedExP's largest step; 0: none.

    Returns:
        The method.
    """
    method = METHODS.of(method_or_name, options)
    return extrapolate(method, extrapolation) if extrapolation > 1 else method


def options(name: str, chosen: Mapping[str, float]) -> dict[str, float]:
    """All hyper-parameters of one of our methods, those at their defaults as well.

    Args:
        name: Of the method.
        chosen: Those that are not at their defaults.

    Returns:
        Numbers by name.
    """
    factory = METHODS.table.get(name)
    own = signature(factory).parameters.values() if callable(factory) else ()
    return {each.name: float(each.default) for each in own} | dict(chosen)


def server_optimizer(text: str) -> ServerOptimizer | None:
    """A server's optimizer by its name and numbers.

    Args:
        text: adam, or adam:0.01/0.9 with its numbers in order.

    Returns:
        The optimizer, or None for an empty text.
    """

    def only_one(several: Sequence[ServerOptimizer]) -> ServerOptimizer:
        raise UserError(
            f"{len(several)} server optimizers: one takes the server's step; leave the others out."
        )

    return SERVER_OPTIMIZERS.chained(text, only_one)


def for_own_optimizers(method: Method) -> Method:
    """The method for clients whose own optimizer moves them; a UserError where it must move them itself.

    Args:
        method: As it was made.

    Returns:
        The method in that form.
    """
    if method.needs_own_steps:
        raise UserError(
            f"{method.title} says itself how a client steps along its gradients, and here clients have an "
            "optimizer of their own: leave the optimizer out, or use a method that takes the models that "
            "clients come to, such as fedavg, fednova, fedadam or amsfl."
        )
    return method


__all__ = [
    "METHODS",
    "Arithmetic",
    "Cost",
    "Distillation",
    "Facts",
    "Method",
    "Number",
    "ServerOptimizer",
    "Vector",
    "extrapolate",
    "for_own_optimizers",
    "make",
    "optimize",
    "options",
    "server_optimizer",
    "tuned",
    "with_momentum",
]
