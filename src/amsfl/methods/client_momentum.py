"""Clients that step with momentum and weight decay, whatever the method."""

from amsfl.core import Total, Upload, UserError
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned_over
from amsfl.methods.base import Method, Variant


def with_momentum(method: Method, momentum: float, weight_decay: float) -> Method:
    """The method with heavy-ball steps at clients; the velocity begins at 0 in every round.

    v <- momentum v + correct(grad) + weight_decay y;   y <- y - lr v

    t such steps move as far along a constant gradient as plain(t) plain ones (Wang et al. 2020, arXiv
    2007.07481, section 4), and that is what SCAFFOLD and FedNova count:

    plain(t) = (t - m (1 - m^t) / (1 - m)) / (1 - m)

    Args:
        method: Any that does not choose the length of its clients' steps.
        momentum: From 0 to below 1.
        weight_decay: From 0 up.

    Returns:
        The method in that form; as it was where both are 0.
    """
    if not (momentum or weight_decay):
        return method
    adapt, adapted = method.adapt, method.adapted(Variant(client_optimizer=True))
    own = adapted.arithmetic
    if own.stride is not None or own.pace is not None or own.closing:
        raise UserError(
            f"{method.title} says itself how long its clients' steps are; leave --client-momentum and "
            "--weight-decay out."
        )

    def heavy(one: Method) -> Method:
        return one._replace(arithmetic=tuned_over(one.arithmetic, _heavy_ball, momentum, weight_decay))

    if adapt is None:
        return heavy(adapted)
    return heavy(adapted)._replace(
        adapt=lambda variant: adapt(variant._replace(client_optimizer=True)).changed(heavy)
    )


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
