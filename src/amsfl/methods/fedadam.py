"""FedAdam, and what FedYogi shares with it."""

from collections.abc import Callable

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned
from amsfl.methods.base import Facts, Method
from amsfl.methods.operators import join

Second = Callable[[Vector, Vector], Vector]  # (v, D^2) -> v+


def fedadam(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """Adam at the server, with the mean delta D for a gradient.

    m+ = beta1 m + (1 - beta1) D;   v+ = beta2 v + (1 - beta2) D^2;   x+ = x + rate m+ / (sqrt(v+) + tau)

    v starts at tau^2; no bias correction. Reddi et al. 2021, arXiv 2003.00295, Algorithm 2.
    """
    facts = Facts("FedAdam", server_optimizer=True)
    return Method("fedadam", tuned(arithmetic, rate, beta1, beta2, tau), facts=facts)


def arithmetic(rate: Number, beta1: Number, beta2: Number, tau: Number) -> Arithmetic:
    return adaptive(rate, beta1, tau, lambda v, square: beta2 * v + (1 - beta2) * square)


def adaptive(rate: Number, beta1: Number, tau: Number, second: Second) -> Arithmetic:
    """Their Algorithm 2 with any rule for v; the server state is m, then v."""

    def init(x: Vector) -> tuple[Vector, Vector]:
        return join(0 * x, 0 * x + tau**2), x[:0]

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        size = len(anchor)
        m = beta1 * server[:size] + (1 - beta1) * total.delta
        v = second(server[size:], total.delta * total.delta)
        return anchor + rate * m / (v**0.5 + tau), join(m, v)

    return Arithmetic(init=init, aggregate=aggregate)
