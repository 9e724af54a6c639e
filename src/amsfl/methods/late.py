"""Methods for servers that move before all clients are back: FedAsync, FedBuff, FedCompass."""

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, average, tuned
from amsfl.methods.base import Facts, Method


def fedasync(alpha: float = 0.6, rho: float = 0.005) -> Method:
    """Mix each model that comes in into the server's, the less the older the one it began from.

    x+ = (1 - a) x + a y,   a = alpha s(t);   y: SGD on f + rho/2 ||y - x_start||^2

    s(t) is the run's `staleness`. Where several come in at once, their mean is y.
    Xie, Koyejo and Gupta 2019, arXiv 1903.03934, Algorithm 1. Their t - tau counts the move that an
    upload makes itself, so it is 1 for work on the newest model; our t is 0 there, and such work counts
    fully. They halve alpha late in a run; ours stays.
    """

    def arithmetic(alpha: Number, rho: Number) -> Arithmetic:
        def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
            return grad + rho * (x - anchor)

        def mix(weights: Vector, steps: Vector) -> Vector:
            return alpha * average(weights, steps)

        return Arithmetic(correct=correct, mix=mix)

    facts = Facts("FedAsync", stale="model", round_end="buffer:1")
    return Method("fedasync", tuned(arithmetic, alpha, rho), facts=facts)


def fedbuff(server_lr: float = 1.0) -> Method:
    """Clients train without waiting; the server adds the mean of every K changes that come in.

    x+ = x + server_lr/K sum_k s(t_k) (y_k - x_start_k)

    Every update counts the same, whatever rows it was made of; s(t) is the run's `staleness`, K its buffer.
    Nguyen et al. 2022, arXiv 2106.06639, Algorithm 1, with their K = 10 and s(t) = 1/sqrt(1+t) by default;
    t counts the server's moves since the client began. Their server may have momentum (`server_optimizer`).
    """

    def arithmetic(server_lr: Number) -> Arithmetic:
        def mix(weights: Vector, steps: Vector) -> Vector:
            each = 0 * weights + 1
            return each / each.sum()

        def aggregate(
            anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
        ) -> tuple[Vector, Vector]:
            return anchor + server_lr * total.delta, server

        return Arithmetic(mix=mix, aggregate=aggregate)

    return Method("fedbuff", tuned(arithmetic, server_lr), facts=Facts("FedBuff", round_end="buffer"))


def fedcompass(alpha: float = 0.9) -> Method:
    """Clients get the steps by which groups of them arrive together; what comes late is mixed in by its age.

    x+ = x + alpha sum_i s(t_i) w_i (y_i - x_start_i)   over a group, and over what came late before it

    w_i is a client's share of all data: a group counts as much as its clients have rows. s(t) is the run's
    `staleness`; theirs is (1+t)^-0.5, which `sqrt` is, too. How groups are made: `--round-end groups`
    (clock/round_end.py).
    Li et al. 2024, arXiv 2309.14675, Algorithms 1 and 2. Steps between a fifth of the most and all, alpha and
    the age's exponent are their code's; it waits 1.5 times a group's time, where we keep the paper's 1.2, and
    first rounds take all steps there, where ours take the least.
    """

    def arithmetic(alpha: Number) -> Arithmetic:
        def mix(weights: Vector, steps: Vector) -> Vector:
            return alpha * weights

        return Arithmetic(mix=mix)

    facts = Facts("FedCompass", round_end="groups", all_clients=True)
    return Method("fedcompass", tuned(arithmetic, alpha), facts=facts)
