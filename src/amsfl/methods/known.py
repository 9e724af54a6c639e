"""What methods are compared with: FedAvg, FedProx, FedNova, SCAFFOLD, FedDyn, and FedExP over any of them."""

from amsfl.core import Total, Upload
from amsfl.methods.arithmetic import (
    Arithmetic,
    Number,
    Vector,
    average,
    tuned,
    tuned_over,
    upload,
    zero_state,
)
from amsfl.methods.base import Cost, Facts, Method
from amsfl.methods.operators import clip


def fedavg() -> Method:
    """Average the clients' models by their share of the data.

    x+ = x + sum_i w_i (y_i - x),   y_i: t_i steps of SGD from x

    McMahan et al. 2017, arXiv 1602.05629.
    """
    return Method("fedavg", facts=Facts("FedAvg"))


def fedprox(mu: float = 0.01) -> Method:
    """FedAvg whose local objective holds on to the anchor: F_i(y) + mu/2 ||y - x||^2.

    y <- y - lr (grad + mu (y - x))

    Li et al. 2020, arXiv 1812.06127. No mu is good everywhere; the paper tries 0.001 to 1.
    """

    def arithmetic(mu: Number) -> Arithmetic:
        def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
            return grad + mu * (x - anchor)

        return Arithmetic(correct=correct)

    return Method("fedprox", tuned(arithmetic, mu), facts=Facts("FedProx"))


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

    return Method("fednova", Arithmetic(mix=mix, aggregate=aggregate), facts=Facts("FedNova"))


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


def feddyn(alpha: float = 0.1) -> Method:
    """Dynamic regularisation: the local optima are bent until they agree with the global one.

    y <- y - lr (grad - g_i + alpha (y - x));   g_i+ = g_i - alpha (y_i - x)
    h+ = h - alpha sum_{cohort} W_i (y_i - x);   x+ = sum_i w_i y_i - h+ / alpha

    W_i is the client's share of ALL clients' data (1/N when clients are equal, as in the paper), w_i
    its share of the cohort's. Few steps hurt it: g_i is exact only where the local problem is solved.
    Acar et al. 2021, arXiv 2111.04263.
    """

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

    # stale: the server's h is the sum of the clients' own only where they are of one model
    return Method("feddyn", tuned(arithmetic, alpha), facts=Facts("FedDyn", stale="refused"))


def extrapolate(method: Method, cap: float = 4.0) -> Method:
    """FedExP: step further than the average where clients disagree, as projections onto convex sets allow.

    x+ = x + s (aggregate - x),   s = clip(sum_i w_i ||d_i||^2 / (2 ||sum_i w_i d_i||^2), 1, cap)

    Jhunjhunwala, Wang and Joshi 2023, arXiv 2301.09604; scaled by the sum of the mixing weights, so
    that methods which mix by other weights than shares get the same ratio.

    Args:
        method: Any.
        cap: The longest step.

    Returns:
        The same method with longer server steps.
    """

    def arithmetic(inner: Arithmetic, cap: Number) -> Arithmetic:
        def aggregate(
            anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
        ) -> tuple[Vector, Vector]:
            moved, server = inner.aggregate(anchor, total, weights, steps, server)
            doubled = 2 * (total.delta * total.delta).sum()
            ratio = inner.mix(weights, steps).sum() * total.delta_sq / (doubled + (doubled == 0))
            return anchor + clip(ratio, 1.0, cap) * (moved - anchor), server

        return inner._replace(aggregate=aggregate)

    return method._replace(
        name=method.name + "+exp",
        arithmetic=tuned_over(method.arithmetic, arithmetic, cap),
        facts=method.facts._replace(title=f"{method.title} + FedExP"),
    )
