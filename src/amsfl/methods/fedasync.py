"""FedAsync."""

from amsfl.methods.arithmetic import Arithmetic, Number, Vector, average, tuned
from amsfl.methods.base import Facts, Method


def fedasync(alpha: float = 0.6, rho: float = 0.005) -> Method:
    """Mix each model that comes in into the server's, the less the older the one it began from.

    x+ = (1 - a) x + a y,   a = alpha s(t);   y: SGD on f + rho/2 ||y - x_start||^2

    s(t) is the run's `staleness`. Where several come in at once, their mean is y.
    Xie, Koyejo and Gupta 2019, arXiv 1903.03934, Algorithm 1. Their t - tau counts the move that an
    upload makes itself, so it is 1 for work on the newest model; our t is 0 there, and such work counts
    fully. They halve alpha late in a run; ours stays.
    """
    facts = Facts("FedAsync", stale="model", round_end="buffer:1")
    return Method("fedasync", tuned(arithmetic, alpha, rho), facts=facts)


def arithmetic(alpha: Number, rho: Number) -> Arithmetic:
    def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad + rho * (x - anchor)

    def mix(weights: Vector, steps: Vector) -> Vector:
        return alpha * average(weights, steps)

    return Arithmetic(correct=correct, mix=mix)
