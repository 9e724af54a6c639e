"""FedSPS."""

from amsfl.methods.arithmetic import Arithmetic, Number, tuned
from amsfl.methods.base import Facts, Method


def fedsps(c: float = 0.5) -> Method:
    """FedAvg with Polyak's step at every client: lr is only the longest that it may be.

    y <- y - min(lr, loss / (c ||g||^2)) g

    The loss's lower bound is taken as 0. Sohom Mukherjee, Loizou and Stich 2023, arXiv 2307.06306.
    """
    return Method("fedsps", tuned(arithmetic, c), facts=Facts("FedSPS"))


def arithmetic(c: Number) -> Arithmetic:
    def stride(loss: Number, grad_sq: Number) -> Number:
        length = loss / (c * grad_sq + 1e-12)
        return length * (length > 0)

    return Arithmetic(stride=stride)
