"""q-FFL."""

from amsfl.methods.arithmetic import Arithmetic, Number, tuned
from amsfl.methods.base import Facts, Method


def qffl(q: float = 1.0, rate: float = 0.05) -> Method:
    """FedAvg on sum_i w_i F_i^(q+1) / (q+1): the larger a client's loss, the longer its steps.

    y <- y - min(lr, rate loss^q) g

    Each step follows the gradient of loss^(q+1) / (q+1) on its minibatch; q=0 is FedAvg with the rate. The
    authors' server step by a bound on the curvature is left out: --lr bounds the step instead.
    Li, Sanjabi, Beirami and Smith 2020, arXiv 1905.10497.
    """
    return Method("qffl", tuned(arithmetic, q, rate), facts=Facts("q-FFL"))


def arithmetic(q: Number, rate: Number) -> Arithmetic:
    def stride(loss: Number, grad_sq: Number) -> Number:
        return rate * (loss * (loss > 0)) ** q

    return Arithmetic(stride=stride)
