"""Clients that step with momentum and weight decay, whatever the method."""

from amsfl.core import Total, Upload
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned_over
from amsfl.methods.base import Method


def with_momentum(method: Method, momentum: float, weight_decay: float) -> Method:
    """The method with heavy-ball steps at clients; the velocity begins at 0 in every round.

    v <- momentum v + correct(grad) + weight_decay y;   y <- y - lr v

    t such steps move as far along a constant gradient as plain(t) plain ones (Wang et al. 2020, arXiv
    2007.07481, section 4), and that is what SCAFFOLD and FedNova count:

    plain(t) = (t - m (1 - m^t) / (1 - m)) / (1 - m)

    Args:
        method: Any.
        momentum: From 0 to below 1.
        weight_decay: From 0 up.

    Returns:
        The method in that form; as it was where both are 0.
    """
    if not (momentum or weight_decay):
        return method
    heavy = tuned_over(method.arithmetic, _heavy_ball, momentum, weight_decay)
    return method._replace(arithmetic=heavy)


def plain_steps(steps: Number, momentum: Number) -> Number:
    """Plain steps that go as far along a constant gradient."""
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


def _heavy_ball(inner: Arithmetic, momentum: Number, weight_decay: Number) -> Arithmetic:
    def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return inner.correct(grad, x, anchor, server, client) + weight_decay * x

    def report(
        x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        return inner.report(x, anchor, plain_steps(steps, momentum), lr, server, client)

    def mix(weights: Vector, steps: Vector) -> Vector:
        return inner.mix(weights, plain_steps(steps, momentum))

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        return inner.aggregate(anchor, total, weights, plain_steps(steps, momentum), server)

    return inner._replace(correct=correct, report=report, mix=mix, aggregate=aggregate, momentum=momentum)
