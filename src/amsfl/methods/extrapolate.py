"""FedExP: a server step on top of any method."""

from typing import Any

from amsfl.core import Total
from amsfl.methods.base import Method, Vector
from amsfl.methods.operators import clip


def server_step(total: Total, scale: Any, cap: float) -> Any:
    """clip(sum_i w_i ||d_i||^2 / (2 ||sum_i w_i d_i||^2), 1, cap) for mixing weights that sum to `scale`."""
    agreement = 2 * (total.delta * total.delta).sum()
    return clip(scale * total.delta_sq / (agreement + (agreement == 0)), 1.0, cap)


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

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        moved, server = method.aggregate(anchor, total, weights, steps, server)
        step = server_step(total, method.mix(weights, steps).sum(), cap)
        return anchor + step * (moved - anchor), server

    title = f"{method.title or method.name} + FedExP"
    driven, stepless = (each and extrapolate(each, cap) for each in (method.driven, method.stepless))
    return method._replace(
        name=method.name + "+exp", title=title, aggregate=aggregate, driven=driven, stepless=stepless
    )
