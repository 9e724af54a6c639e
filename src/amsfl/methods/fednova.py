"""FedNova."""

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Vector, average
from amsfl.methods.base import Facts, Method


def fednova() -> Method:
    """Average the clients' mean steps, then take the mean number of them: unequal steps do not bias.

    x+ = x + tau_eff sum_i w_i (y_i - x) / t_i,   tau_eff = sum_i w_i t_i      (plain SGD: ||a_i||_1 = t_i)

    Wang et al. 2020, arXiv 2007.07481.
    """

    def mix(weights: Vector, steps: Vector) -> Vector:
        return average(weights, steps) / steps

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        effective = (average(weights, steps) * steps).sum()
        return anchor + effective * total.delta, server

    return Method(
        "fednova", Arithmetic(mix=mix, aggregate=aggregate, pieces=(aggregate, 0)), facts=Facts("FedNova")
    )
