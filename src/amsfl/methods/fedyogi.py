"""FedYogi."""

from amsfl.methods.base import Method, Vector
from amsfl.methods.fedadam import adaptive


def fedyogi(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAdam whose v moves by D^2 at most, however far it has to go.

    v+ = v - (1 - beta2) D^2 sign(v - D^2);   the rest as in FedAdam

    Reddi et al. 2021, arXiv 2003.00295, Algorithm 2.
    """

    def second(v: Vector, square: Vector) -> Vector:
        above, below = v > square, v < square
        return v - (1 - beta2) * (square * above - square * below)

    return adaptive("fedyogi", "FedYogi", rate, beta1, tau, second)
