"""FedYogi."""

from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned
from amsfl.methods.base import Facts, Method
from amsfl.methods.fedadam import adaptive


def fedyogi(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAdam whose v moves by D^2 at most, however far it has to go.

    v+ = v - (1 - beta2) D^2 sign(v - D^2);   the rest as in FedAdam

    Reddi et al. 2021, arXiv 2003.00295, Algorithm 2.
    """
    facts = Facts("FedYogi", server_optimizer=True)
    return Method("fedyogi", tuned(arithmetic, rate, beta1, beta2, tau), facts=facts)


def arithmetic(rate: Number, beta1: Number, beta2: Number, tau: Number) -> Arithmetic:
    def second(v: Vector, square: Vector) -> Vector:
        above, below = v > square, v < square
        return v - (1 - beta2) * (square * above - square * below)

    return adaptive(rate, beta1, tau, second)
