"""FedAvgM."""

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned
from amsfl.methods.base import Facts, Method


def fedavgm(momentum: float = 0.9) -> Method:
    """FedAvg with momentum at the server.

    v+ = momentum v + sum_i w_i (y_i - x);   x+ = x + v+

    Hsu, Qi and Brown 2019, arXiv 1909.06335.
    """
    return Method("fedavgm", tuned(arithmetic, momentum), facts=Facts("FedAvgM", server_optimizer=True))


def arithmetic(momentum: Number) -> Arithmetic:
    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        v = momentum * server + total.delta
        return anchor + v, v

    return Arithmetic(init=lambda x: (0 * x, x[:0]), aggregate=aggregate)
