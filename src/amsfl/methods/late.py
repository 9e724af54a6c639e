"""Methods for servers that move before all clients are back."""

from dataclasses import dataclass

from amsfl.core import Total
from amsfl.methods.base import Facts, Method, Number, Vector, average, join, where


@dataclass(frozen=True)
class FedAsync(Method):
    """Mix each model that comes in into the server's, the less the older the one it began from.

    x+ = (1 - a) x + a y,   a = alpha s(t);   y: SGD on f + rho/2 ||y - x_start||^2

    s(t) is the run's `staleness`. Where several come in at once, their mean is y.
    Xie, Koyejo and Gupta 2019, arXiv 1903.03934, Algorithm 1. Their t - tau counts the move that an
    upload makes itself, so it is 1 for work on the newest model; our t is 0 there, and such work counts
    fully. They halve alpha late in a run; ours stays.
    """

    alpha: Number = 0.6
    rho: Number = 0.005
    facts = Facts("fedasync", "FedAsync", stale="model", round_end="buffer:1")

    def correct(self, grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad + self.rho * (x - anchor)

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        return self.alpha * average(weights)


@dataclass(frozen=True)
class FedBuff(Method):
    """Clients train without waiting; the server adds the mean of every K changes that come in.

    x+ = x + server_lr/K sum_k s(t_k) (y_k - x_start_k)

    Every update counts the same, whatever rows it was made of; s(t) is the run's `staleness`, K its buffer.
    Nguyen et al. 2022, arXiv 2106.06639, Algorithm 1, with their K = 10 and s(t) = 1/sqrt(1+t) by default;
    t counts the server's moves since the client began. Their server may have momentum (`server_optimizer`).
    """

    server_lr: Number = 1.0
    facts = Facts("fedbuff", "FedBuff", round_end="buffer")

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        return average(0 * weights + 1)

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        return anchor + self.server_lr * total.delta, server


@dataclass(frozen=True)
class DelayedNesterov(FedBuff):
    """Every change moves the model as it comes in; momentum waits for N of them, so that none is stale twice.

    x+ = x + server_lr (d/N + b),   b = 0, but at every N-th change b = momentum m+
    m+ = momentum m + (sum of the last N changes)/N at every N-th change

    Over N changes that is Nesterov's step by their mean. Clients' steps are by speed: all take the
    same time (its dynamic local updates). Liu et al. 2024, arXiv 2401.09135, Algorithms 3 and 4, c = 0.
    """

    server_lr: Number = 0.7
    momentum: Number = 0.9
    every: Number = 4.0  # N
    facts = Facts("delayed-nesterov", "Delayed Nesterov", policy="speed", round_end="buffer:1")

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        return join(0 * x, 0 * x, 0 * x[:1]), x[:0]

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        size = len(anchor)
        m, gathered, count = server[:size], server[size : 2 * size] + total.delta, server[2 * size :] + 1
        full = count >= self.every
        m = where(full, self.momentum * m + gathered / self.every, m)
        step = total.delta / self.every + where(full, self.momentum * m, 0 * m)
        state = join(m, where(full, 0 * m, gathered), where(full, 0 * count, count))
        return anchor + self.server_lr * step, state


@dataclass(frozen=True)
class FedCompass(Method):
    """Clients get the steps by which groups of them arrive together; what comes late is mixed in by its age.

    x+ = x + alpha sum_i s(t_i) w_i (y_i - x_start_i)   over a group, and over what came late before it

    w_i is a client's share of all data: a group counts as much as its clients have rows. s(t) is the run's
    `staleness`; theirs is (1+t)^-0.5, which `sqrt` is, too. How groups are made: `--round-end groups`
    (clock/round_end.py).
    Li et al. 2024, arXiv 2309.14675, Algorithms 1 and 2. Steps between a fifth of the most and all, alpha and
    the age's exponent are their code's; it waits 1.5 times a group's time, where we keep the paper's 1.2, and
    first rounds take all steps there, where ours take the least.
    """

    alpha: Number = 0.9
    facts = Facts("fedcompass", "FedCompass", round_end="groups", all_clients=True)

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        return self.alpha * weights
