"""SCAFFOLD, option II."""

from amsfl.core import Total, Upload
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, upload, zero_state
from amsfl.methods.base import Cost, Facts, Method


def scaffold() -> Method:
    """Control variates: every client steps along its gradient minus its own drift plus the mean one.

    y <- y - lr (grad - c_i + c);   c_i+ = c_i - c + (x - y) / (K lr),  K the steps actually run
    x+ = x + sum_i w_i (y_i - x);   c+ = c + sum_{cohort} W_i (c_i+ - c_i)

    W_i is the client's share of ALL clients' data: 1/N when clients are equal, as in the paper; by
    shares, the fixed point is the minimum of the weighted objective, which 1/N would miss.
    Karimireddy et al. 2020, arXiv 1910.06378.
    """

    def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad - client + server

    def report(
        x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        fresh = client - server + (anchor - x) / (steps * lr)
        return upload(x - anchor, fresh - client), fresh

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        return anchor + total.delta, server + weights.sum() * total.extra

    return Method(
        "scaffold",
        Arithmetic(zero_state, correct, report=report, aggregate=aggregate),
        Cost(vectors_down=2, vectors_up=2),
        Facts("SCAFFOLD", stale="refused"),  # control variates are differences from the newest model's
    )
