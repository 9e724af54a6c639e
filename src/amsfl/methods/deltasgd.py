"""Delta-SGD."""

from amsfl.methods.arithmetic import Arithmetic, Number, tuned_over
from amsfl.methods.base import Method
from amsfl.methods.known import fedavg
from amsfl.methods.operators import least
from amsfl.methods.server_optimizers import fedadam


def deltasgd(gamma: float = 2.0, delta: float = 0.1, adam: float = 0.0) -> Method:
    """Clients step by the smoothness they meet; lr is only the first step of a round.

    l_0 = lr, growth_0 = 1;   growth_k = l_k / l_(k-1)
    l_k = min(gamma ||y_k - y_(k-1)|| / (2 ||g_k - g_(k-1)||), sqrt(1 + delta growth_(k-1)) l_(k-1))

    g_k is the gradient of step k's own minibatch. `adam` is the rate of a FedAdam server, 0 for the mean.
    Kim, Toghani, Uribe and Kyrillidis 2024, arXiv 2306.11201, Algorithm 1.
    """
    server = fedadam(rate=adam) if adam else fedavg()
    tuned = tuned_over(server.arithmetic, arithmetic, gamma, delta)
    return Method("delta-sgd", tuned, facts=server.facts._replace(title="Delta-SGD"))


def arithmetic(server: Arithmetic, gamma: Number, delta: Number) -> Arithmetic:
    def pace(length: Number, growth: Number, moved: Number, change: Number) -> tuple[Number, Number]:
        begun, first = moved > 0, moved <= 0
        grown = (1 + delta * growth) ** 0.5 * length
        flat = change <= 0  # a gradient that did not change bounds nothing
        smooth = gamma / 2 * (moved / (change + flat)) ** 0.5 + grown * flat
        new = least(smooth, grown) * begun + length * first
        return new, new / length

    return server._replace(pace=pace)
