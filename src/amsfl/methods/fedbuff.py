"""FedBuff."""

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned
from amsfl.methods.base import Facts, Method


def fedbuff(server_lr: float = 1.0) -> Method:
    """Clients train without waiting; the server adds the mean of every K changes that come in.

    x+ = x + server_lr/K sum_k s(t_k) (y_k - x_start_k)

    Every update counts the same, whatever rows it was made of; s(t) is the run's `staleness`, K its buffer.
    Nguyen et al. 2022, arXiv 2106.06639, Algorithm 1, with their K = 10 and s(t) = 1/sqrt(1+t) by default;
    t counts the server's moves since the client began. Their server may have momentum (`server_optimizer`).
    """
    return Method("fedbuff", tuned(arithmetic, server_lr), facts=Facts("FedBuff", round_end="buffer"))


def arithmetic(server_lr: Number) -> Arithmetic:
    def mix(weights: Vector, steps: Vector) -> Vector:
        each = 0 * weights + 1
        return each / each.sum()

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        return anchor + server_lr * total.delta, server

    return Arithmetic(mix=mix, aggregate=aggregate)
