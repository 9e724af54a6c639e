"""FedExP: a server step on top of any method."""

from amsfl.core import Upload
from amsfl.methods.base import Method, Vector


def extrapolate(method: Method, cap: float = 4.0) -> Method:
    """Step further than the average where the clients disagree, as projections onto convex sets allow.

    x+ = x + s (aggregate - x),   s = clip(sum_i w_i ||d_i||^2 / (2 ||sum_i w_i d_i||^2), 1, cap)

    Jhunjhunwala, Wang and Joshi 2023, arXiv 2301.09604; with the sum of the mixing weights squared in
    front, so that methods which mix by other weights than shares get the same ratio.
    """

    def aggregate(
        anchor: Vector, total: Upload, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        moved, server = method.aggregate(anchor, total, weights, steps, server)
        scale = method.mix(weights, steps).sum()
        agreement = 2 * (total.delta * total.delta).sum()
        ratio = scale * total.delta_sq / (agreement + (agreement == 0))
        return anchor + _clip(ratio, 1.0, cap) * (moved - anchor), server

    return method._replace(name=method.name + "+exp", aggregate=aggregate)


def _clip(value: Vector, low: float, high: float) -> Vector:
    """max and min with operators alone: (a + b ± |a - b|) / 2."""
    raised = (value + low + abs(value - low)) / 2
    return (raised + high - abs(raised - high)) / 2
