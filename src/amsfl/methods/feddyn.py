"""FedDyn."""

from amsfl.core import Total, Upload
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned, upload, zero_state
from amsfl.methods.base import Facts, Method


def feddyn(alpha: float = 0.1) -> Method:
    """Dynamic regularisation: the local optima are bent until they agree with the global one.

    y <- y - lr (grad - g_i + alpha (y - x));   g_i+ = g_i - alpha (y_i - x)
    h+ = h - alpha sum_{cohort} W_i (y_i - x);   x+ = sum_i w_i y_i - h+ / alpha

    W_i is the client's share of ALL clients' data (1/N when clients are equal, as in the paper), w_i
    its share of the cohort's. Few steps hurt it: g_i is exact only where the local problem is solved.
    Acar et al. 2021, arXiv 2111.04263.
    """
    # stale: the server's h is the sum of the clients' own only where they are of one model
    return Method("feddyn", tuned(arithmetic, alpha), facts=Facts("FedDyn", stale="refused"))


def arithmetic(alpha: Number) -> Arithmetic:
    def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad - client + alpha * (x - anchor)

    def report(
        x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        return upload(x - anchor), client - alpha * (x - anchor)

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        h = server - alpha * weights.sum() * total.delta
        return anchor + total.delta - h / alpha, h

    return Arithmetic(zero_state, correct, report=report, aggregate=aggregate)
