"""FedAvgM."""

from amsfl.core import Total
from amsfl.methods.base import Method, Vector


def fedavgm(momentum: float = 0.9) -> Method:
    """FedAvg with momentum at the server.

    v+ = momentum v + sum_i w_i (y_i - x);   x+ = x + v+

    Hsu, Qi and Brown 2019, arXiv 1909.06335.
    """

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        v = momentum * server + total.delta
        return anchor + v, v

    return Method(
        "fedavgm", init=lambda x: (0 * x, x[:0]), aggregate=aggregate, title="FedAvgM", optimizes=True
    )
