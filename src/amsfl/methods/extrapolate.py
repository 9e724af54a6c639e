"""FedExP: a server step on top of any method."""

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned_over
from amsfl.methods.base import Method
from amsfl.methods.operators import clip


def server_step(total: Total, scale: Number, cap: Number) -> Number:
    """clip(sum_i w_i ||d_i||^2 / (2 ||sum_i w_i d_i||^2), 1, cap) for mixing weights that sum to `scale`."""
    doubled = 2 * (total.delta * total.delta).sum()
    return clip(scale * total.delta_sq / (doubled + (doubled == 0)), 1.0, cap)


def extrapolate(method: Method, cap: float = 4.0) -> Method:
    """Step further than the average where the clients disagree, as projections onto convex sets allow.

    x+ = x + s (aggregate - x),   s = clip(sum_i w_i ||d_i||^2 / (2 ||sum_i w_i d_i||^2), 1, cap)

    Jhunjhunwala, Wang and Joshi 2023, arXiv 2301.09604; scaled by the sum of the mixing weights, so
    that methods which mix by other weights than shares get the same ratio.

    Args:
        method: Any.
        cap: The longest step.

    Returns:
        The same method with longer server steps.
    """

    def longer(each: Method) -> Method:
        return each._replace(
            name=each.name + "+exp",
            arithmetic=tuned_over(each.arithmetic, arithmetic, cap),
            facts=each.facts._replace(title=f"{each.title} + FedExP"),
        )

    return method.changed(longer)


def arithmetic(inner: Arithmetic, cap: Number) -> Arithmetic:
    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        moved, server = inner.aggregate(anchor, total, weights, steps, server)
        step = server_step(total, inner.mix(weights, steps).sum(), cap)
        return anchor + step * (moved - anchor), server

    return inner._replace(aggregate=aggregate)
