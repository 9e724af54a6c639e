"""Federated methods: dataclasses of numbers with pure functions of flat vectors, and one table for all."""

from collections.abc import Mapping, Sequence

from amsfl.core import Kind, UserError
from amsfl.methods.amsfl import Amsfl, AmsflPaper, AmsflSteps
from amsfl.methods.base import Facts, Federation, Method, Number, Vector
from amsfl.methods.changes import (
    Adam,
    ClientOptimizer,
    Extrapolated,
    HeavyBall,
    ServerOptimizer,
    Yogi,
    fedadam,
    fedavgm,
    fedyogi,
    optimize,
)
from amsfl.methods.known import (
    ControlVariates,
    Distillation,
    DynamicRegularisation,
    FedAvg,
    FedCSDA,
    FedNova,
    FedProx,
)
from amsfl.methods.late import DelayedNesterov, FedAsync, FedBuff, FedCompass

METHODS: Kind[Method] = Kind(
    "method",
    Method,
    {
        "fedavg": FedAvg,
        "fedprox": FedProx,
        "fednova": FedNova,
        "scaffold": ControlVariates,
        "feddyn": DynamicRegularisation,
        "fedcsda": FedCSDA,
        "fedavgm": fedavgm,
        "fedadam": fedadam,
        "fedyogi": fedyogi,
        "fedasync": FedAsync,
        "fedbuff": FedBuff,
        "delayed-nesterov": DelayedNesterov,
        "fedcompass": FedCompass,
        "amsfl": Amsfl,
        "amsfl-steps": AmsflSteps,
        "amsfl-paper": AmsflPaper,
    },
)
SERVER_OPTIMIZERS: Kind[ServerOptimizer] = Kind(
    "server optimizer",
    ServerOptimizer,
    {"momentum": HeavyBall, "adam": Adam, "yogi": Yogi},
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
    return Extrapolated(method, extrapolation) if extrapolation > 1 else method


def server_optimizer(text: str) -> ServerOptimizer | None:
    """A server's optimizer, as in adam or adam:0.01/0.9, its numbers in order; None for an empty text."""

    def only_one(several: Sequence[ServerOptimizer]) -> ServerOptimizer:
        raise UserError(
            f"{len(several)} server optimizers: one takes the server's step; leave the others out."
        )

    return SERVER_OPTIMIZERS.chained(text, only_one)
