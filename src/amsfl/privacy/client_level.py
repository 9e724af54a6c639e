"""Whole clients kept private (phones): every delta cut, noise on the sum at the server.

    D = (sum_{i in cohort} w_i d_i min(1, C/||d_i||) + z C max_j w_j N(0, I)) / q

Every client is in a round's cohort with chance q, whoever else is; w are shares of all data, and the largest
of all of them, in the cohort or not, is what one client can add to the sum: Flower's noise goes by the number
of clients, and their average by rows. q times all shares divides, not the shares that came: how many there
were would tell of each.

With a quantile the clip follows the lengths of deltas: C <- C exp(-RATE (b - quantile)), b the share of those
in the cohort that were not cut, counted with noise of its own. Both share one z: the sum then has
z' = (z^-2 - (2 z_b)^-2)^-1/2.   Andrew et al. 2021, arXiv 1905.03871; McMahan et al. 2018, arXiv 1710.06963.
"""

from typing import Any

from amsfl.core import Guard, Upload, namespace
from amsfl.methods import Method
from amsfl.methods.arithmetic import Vector

RATE = 0.2  # of the clip's logarithm
COUNT = 20  # the noise of the count is so small a part of the cohort that is expected


def guarded(method: Method, clip: float, noise: float, part: float, clients: int, quantile: float) -> Method:
    """The method with every client's delta cut and noise on the sum; the clip is in its server state.

    Args:
        method: One that sends deltas and averages them by weight.
        clip: The norm that every delta is cut to; at first, if it adapts.
        noise: Of the sum, over what one client can add to it.
        part: Of all clients that are expected in a cohort.
        clients: How many there are.
        quantile: Share of the deltas that are to stay whole, by which the clip adapts; 0: it stays.

    Returns:
        The method whose server keeps whole clients private.
    """
    inner, expected = method.arithmetic, part * clients
    count_noise = expected / COUNT
    own = noise
    if quantile:
        own = (noise**-2 - (2 * max(count_noise, noise)) ** -2) ** -0.5
        count_noise = max(count_noise, noise)

    def apply(
        uploads: Upload, weights: Vector, server: Vector, largest: Any, draw: Any
    ) -> tuple[Upload, Vector]:
        space, bound = namespace(weights), server[-1]
        length = space.sqrt((uploads.delta * uploads.delta).sum(1))
        whole = space.isfinite(length)
        clean = space.where(whole[:, None], uploads.delta, space.zeros_like(uploads.delta))
        by = space.where(whole, bound / space.maximum(length, bound), space.zeros_like(length))
        chance = draw(uploads.delta.shape[1] + 1)
        delta = ((weights * by)[:, None] * clean).sum(0) + own * bound * largest * chance[:-1]
        delta = delta / part
        if quantile:
            stayed = ((weights > 0) * (space.where(length <= bound, 1.0, 0.0) - 0.5)).sum()
            share = (stayed + count_noise * chance[-1]) / expected + 0.5
            bound = bound * space.exp(-RATE * (share - quantile))
        state = space.concat([server[:-1], space.reshape(bound, (1,))])
        return Upload(delta, uploads.extra[0], (delta * delta).sum()), state

    def init(x: Vector) -> tuple[Vector, Vector]:
        server, client = inner.init(x)
        return namespace(x).concat([server, 0 * x[:1] + clip]), client

    def aggregate(
        anchor: Vector, total: Any, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        moved, state = inner.aggregate(anchor, total, weights, steps, server[:-1])
        return moved, namespace(server).concat([state, server[-1:]])

    def model(anchor: Vector, server: Vector) -> Vector:
        return inner.model(anchor, server[..., :-1])

    arithmetic = inner._replace(init=init, aggregate=aggregate, model=model)
    return method._replace(arithmetic=arithmetic, adapt=None, guard=Guard(part, apply))
