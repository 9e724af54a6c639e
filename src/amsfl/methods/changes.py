"""What is put over any method: longer server steps, a server's optimizer, an optimizer of clients' steps.

Servers' optimizers are written out: optax's differ from the paper's (bias correction, another start), run on
jax arrays alone, and would need states flattened and converted, in no fewer lines.
"""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar

from amsfl.core import Total, Upload, UserError
from amsfl.methods.base import STATIC, Facts, Method, Number, Vector, clip, join
from amsfl.methods.known import FedAvg


@dataclass(frozen=True)
class Changed(Method):
    """A method with something over it: what a subclass does not say is the inner method's."""

    inner: Method

    def as_fedavg(self, name: str) -> bool:
        return getattr(type(self), name) is getattr(Changed, name) and self.inner.as_fedavg(name)


INNER = ("facts", "judges", "objective", "client_optimizer", "own_state")
for _name in (*INNER, "init", "correct", "report", "mix", "aggregate", "model", "revise"):
    setattr(Changed, _name, property(attrgetter(f"inner.{_name}")))


@dataclass(frozen=True)
class Extrapolated(Changed):
    """FedExP: step further than the average where clients disagree, as projections onto convex sets allow.

    x+ = x + s (aggregate - x),   s = clip(sum_i w_i ||d_i||^2 / (2 ||sum_i w_i d_i||^2), 1, cap)

    Jhunjhunwala, Wang and Joshi 2023, arXiv 2301.09604; scaled by the sum of the mixing weights, so
    that methods which mix by other weights than shares get the same ratio.
    """

    cap: Number = 4.0

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        own = self.inner.facts
        return own._replace(name=f"{own.name}+exp", title=f"{self.inner.title} + FedExP")

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        moved, server = self.inner.aggregate(anchor, total, weights, steps, server)
        doubled = 2 * (total.delta * total.delta).sum()
        ratio = self.inner.mix(weights, steps).sum() * total.delta_sq / (doubled + (doubled == 0))
        return anchor + clip(ratio, 1.0, self.cap) * (moved - anchor), server


@dataclass(frozen=True)
class ClientOptimizer(Changed):
    """Clients step by an optimizer of optax (engines/optimizers.py); its rate is the run's.

    u, s <- update(correct(grad), s, y);   y <- y + lr u

    With momentum m, t steps move as far along a constant gradient as plain(t) plain ones (Wang et al. 2020,
    arXiv 2007.07481, section 4), and that is what SCAFFOLD and FedNova count:

    plain(t) = (t - m (1 - m^t) / (1 - m)) / (1 - m)
    """

    steps: Any = field(metadata=STATIC)

    @property
    def client_optimizer(self) -> Any:  # type: ignore[override]
        return self.steps

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        own = self.inner.facts
        return own if self.steps.lr is None else own._replace(lr=self.steps.lr)

    def report(
        self, x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        return self.inner.report(x, anchor, self._plain(steps), lr, server, client)

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        return self.inner.mix(weights, self._plain(steps))

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        return self.inner.aggregate(anchor, total, weights, self._plain(steps), server)

    def _plain(self, steps: Number) -> Number:
        return plain_steps(steps, self.steps.momentum or 0.0)


def plain_steps(steps: Number, momentum: Number) -> Number:
    """Plain steps that go as far along a constant gradient."""
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


@dataclass(frozen=True)
class ServerOptimizer:
    """The server's own step for the mean change D of a round."""

    title: ClassVar[str]  # over FedAvg
    vectors: ClassVar[int]  # that its state is made of

    def start(self, x: Vector) -> Vector:
        """Its state before the first round."""
        raise NotImplementedError

    def update(self, delta: Vector, state: Vector) -> tuple[Vector, Vector]:
        """The step, and the state from now on."""
        raise NotImplementedError


@dataclass(frozen=True)
class HeavyBall(ServerOptimizer):
    """v+ = momentum v + D;   x+ = x + v+.   Hsu, Qi and Brown 2019, arXiv 1909.06335."""

    momentum: Number = 0.9
    title, vectors = "FedAvgM", 1

    def start(self, x: Vector) -> Vector:
        return 0 * x

    def update(self, delta: Vector, state: Vector) -> tuple[Vector, Vector]:
        return (self.momentum * state + delta,) * 2


@dataclass(frozen=True)
class Adam(ServerOptimizer):
    """m+ = beta1 m + (1 - beta1) D;   v+ = beta2 v + (1 - beta2) D^2;   x+ = x + rate m+ / (sqrt(v+) + tau)

    v starts at tau^2; no bias correction. Reddi et al. 2021, arXiv 2003.00295, Algorithm 2.
    """

    rate: Number = 0.03
    beta1: Number = 0.9
    beta2: Number = 0.99
    tau: Number = 1e-3
    title, vectors = "FedAdam", 2

    def start(self, x: Vector) -> Vector:
        return join(0 * x, 0 * x + self.tau**2)

    def second(self, v: Vector, square: Vector) -> Vector:
        return self.beta2 * v + (1 - self.beta2) * square

    def update(self, delta: Vector, state: Vector) -> tuple[Vector, Vector]:
        m = self.beta1 * state[: len(delta)] + (1 - self.beta1) * delta
        v = self.second(state[len(delta) :], delta * delta)
        return self.rate * m / (v**0.5 + self.tau), join(m, v)


@dataclass(frozen=True)
class Yogi(Adam):
    """Adam whose v moves by D^2 at most, however far it has to go: v+ = v - (1 - beta2) D^2 sign(v - D^2)."""

    title = "FedYogi"

    def second(self, v: Vector, square: Vector) -> Vector:
        return v - (1 - self.beta2) * (square * (v > square) - square * (v < square))


@dataclass(frozen=True)
class Optimized(Changed):
    """The optimizer takes the step that the method would have taken for its gradient.

    D = aggregate(x, ...) - x;   x+ = x + update(D);   the method's own server state moves on as without it

    SCAFFOLD's mean control variate and FedDyn's h do not care how far the model goes by them; both rest where
    D = 0, as before. The server state is one vector: the method's own, then the optimizer's.
    """

    optimizer: ServerOptimizer

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        own, title = self.inner.facts, self.optimizer.title
        title = title if own.name == "fedavg" else f"{self.inner.title} + {title}"
        return own._replace(name=title.lower().replace(" ", ""), title=title, server_optimizer=True)

    def own_state(self, server: Vector, anchor: Vector) -> Vector:
        return server[..., : server.shape[-1] - self.optimizer.vectors * anchor.shape[-1]]

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        own = self.own_state(server, anchor)
        rest, delta = server[len(own) :], total.delta
        if not self.inner.as_fedavg("aggregate"):
            moved, own = self.inner.aggregate(anchor, total, weights, steps, own)
            delta = moved - anchor
        step, rest = self.optimizer.update(delta, rest)
        return anchor + step, join(own, rest)

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        own, client = self.inner.init(x)
        return join(own, self.optimizer.start(x)), client


def optimize(method: Method, optimizer: ServerOptimizer) -> Method:
    """The method, whose server has no step of its own, with an optimizer's: Momentum, Adam, Yogi."""
    if method.facts.server_optimizer or method.judges:
        raise UserError(
            f"The server of {method.title} has a step of its own: leave --server-optimizer out, or name "
            "another method, such as fedavg or amsfl-steps."
        )
    return Optimized(method, optimizer)


def fedavgm(momentum: float = 0.9) -> Method:
    """FedAvg with momentum at the server."""
    return Optimized(FedAvg(), HeavyBall(momentum))


def fedadam(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAvg with Adam at the server, the mean change for a gradient."""
    return Optimized(FedAvg(), Adam(rate, beta1, beta2, tau))


def fedyogi(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAdam whose second moment moves by D^2 at most, however far it has to go."""
    return Optimized(FedAvg(), Yogi(rate, beta1, beta2, tau))
