"""FedDuA."""

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned
from amsfl.methods.base import Facts, Method
from amsfl.methods.operators import join


def feddua(beta1: float = 0.0, beta2: float = 0.99, epsilon: float = 1e-3) -> Method:
    """A server step by what clients and coordinates disagree about: FedExP in Adam's metric.

    G = sqrt(v+) + epsilon, scaled to a mean of 1;   v+ = beta2 v + (1 - beta2) D^2
    x+ = x + s D / G,   s = sum_i w_i ||d_i||^2 / (2 D' (D / G))     (at least 1)

    Mirror descent with the distance x' G x / 2: every client's delta gains <d_i, x* - x> >= ||d_i||^2 where
    its problem is solved, a step s costs s^2 D' (D / G) / 2, and this s is the best for that bound; half of
    it, as FedExP takes, since local problems are not solved. With G = 1 this is FedExP without a cap.
    Takakura, Liew and Hasegawa 2025, arXiv 2505.11126.
    """
    facts = Facts("FedDuA", server_optimizer=True)
    return Method("feddua", tuned(arithmetic, beta1, beta2, epsilon), facts=facts)


def arithmetic(beta1: Number, beta2: Number, epsilon: Number) -> Arithmetic:
    def init(x: Vector) -> tuple[Vector, Vector]:
        return join(0 * x, 0 * x), x[:0]

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        size, delta = len(anchor), total.delta
        m = beta1 * server[:size] + (1 - beta1) * delta
        v = beta2 * server[size:] + (1 - beta2) * delta * delta
        metric = v**0.5
        metric = metric / (metric.mean() + (metric.mean() == 0)) + epsilon
        turned = m / metric
        cost = 2 * (m * turned).sum()
        s = total.delta_sq / (cost + (cost == 0))
        s = s * (s > 1) + (s <= 1)
        return anchor + s * turned, join(m, v)

    return Arithmetic(init=init, aggregate=aggregate)
