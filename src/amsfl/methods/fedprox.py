"""FedProx."""

from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned
from amsfl.methods.base import Facts, Method


def fedprox(mu: float = 0.01) -> Method:
    """FedAvg whose local objective holds on to the anchor: F_i(y) + mu/2 ||y - x||^2.

    y <- y - lr (grad + mu (y - x))

    Li et al. 2020, arXiv 1812.06127. No mu is good everywhere; the paper tries 0.001 to 1.
    """
    return Method("fedprox", tuned(arithmetic, mu), facts=Facts("FedProx"))


def arithmetic(mu: Number) -> Arithmetic:
    def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad + mu * (x - anchor)

    return Arithmetic(correct=correct)
