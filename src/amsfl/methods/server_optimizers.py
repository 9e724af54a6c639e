"""A server's optimizer over a method's step: momentum, Adam, Yogi. Over FedAvg: FedAvgM, FedAdam, FedYogi.

Written out: optax's differ from the paper's (bias correction, another start), run on jax arrays alone, and
would need states flattened, converted, and compiled anew for every learning rate, in no fewer lines.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from amsfl.core import Total, UserError
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, add_delta, tuned_over
from amsfl.methods.base import Method
from amsfl.methods.known import fedavg
from amsfl.methods.operators import join


class ServerOptimizer(NamedTuple):
    """update(D, state, *numbers) -> step, state, for the mean change D;   start(x, *numbers) -> state."""

    name: str
    numbers: tuple[Number, ...]
    start: Callable[..., Vector]
    update: Callable[..., tuple[Vector, Vector]]
    vectors: int  # that the state is made of


def heavy_ball(momentum: float = 0.9) -> ServerOptimizer:
    """v+ = momentum v + D;   x+ = x + v+.   Hsu, Qi and Brown 2019, arXiv 1909.06335."""

    def update(delta: Vector, v: Vector, momentum: Number) -> tuple[Vector, Vector]:
        return (momentum * v + delta,) * 2

    return ServerOptimizer("FedAvgM", (momentum,), lambda x, momentum: 0 * x, update, 1)


def adam(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> ServerOptimizer:
    """m+ = beta1 m + (1 - beta1) D;   v+ = beta2 v + (1 - beta2) D^2;   x+ = x + rate m+ / (sqrt(v+) + tau)

    v starts at tau^2; no bias correction. Reddi et al. 2021, arXiv 2003.00295, Algorithm 2.
    """
    return _adaptive("FedAdam", lambda v, sq, beta2: beta2 * v + (1 - beta2) * sq, rate, beta1, beta2, tau)


def yogi(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> ServerOptimizer:
    """Adam whose v moves by D^2 at most, however far it has to go: v+ = v - (1 - beta2) D^2 sign(v - D^2)."""

    def second(v: Vector, sq: Vector, beta2: Number) -> Vector:
        return v - (1 - beta2) * (sq * (v > sq) - sq * (v < sq))

    return _adaptive("FedYogi", second, rate, beta1, beta2, tau)


def _adaptive(name: str, second: Callable[..., Vector], *numbers: Number) -> ServerOptimizer:
    def update(
        delta: Vector, state: Vector, rate: Number, beta1: Number, beta2: Number, tau: Number
    ) -> tuple[Vector, Vector]:
        m = beta1 * state[: len(delta)] + (1 - beta1) * delta
        v = second(state[len(delta) :], delta * delta, beta2)
        return rate * m / (v**0.5 + tau), join(m, v)

    return ServerOptimizer(name, numbers, lambda x, *all: join(0 * x, 0 * x + all[-1] ** 2), update, 2)


def fedavgm(momentum: float = 0.9) -> Method:
    """FedAvg with momentum at the server."""
    return optimize(fedavg(), heavy_ball(momentum))


def fedadam(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAvg with Adam at the server, the mean change for a gradient."""
    return optimize(fedavg(), adam(rate, beta1, beta2, tau))


def fedyogi(rate: float = 0.03, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAdam whose second moment moves by D^2 at most, however far it has to go."""
    return optimize(fedavg(), yogi(rate, beta1, beta2, tau))


def optimize(method: Method, optimizer: ServerOptimizer) -> Method:
    """The optimizer takes the step that the method would have taken for its gradient.

    D = aggregate(x, ...) - x;   x+ = x + update(D);   the method's own server state moves on as without it

    SCAFFOLD's mean control variate and FedDyn's h do not care how far the model goes by them; both rest where
    D = 0, as before.

    Args:
        method: Any whose server has no step of its own.
        optimizer: Momentum, Adam, Yogi.

    Returns:
        The method with that step.
    """
    if method.facts.server_optimizer or method.judges:
        raise UserError(
            f"The server of {method.title} has a step of its own: leave --server-optimizer out, or name "
            "another method, such as fedavg or amsfl-steps."
        )
    title = optimizer.name if method.name == "fedavg" else f"{method.title} + {optimizer.name}"
    return method._replace(
        name=title.lower().replace(" ", ""),
        arithmetic=tuned_over(method.arithmetic, partial(_arithmetic, optimizer), *optimizer.numbers),
        facts=method.facts._replace(title=title, server_optimizer=True),
    )


def _arithmetic(optimizer: ServerOptimizer, inner: Arithmetic, *numbers: Number) -> Arithmetic:
    """The server state is one vector: the method's own, then the optimizer's."""

    def own_state(state: Vector, anchor: Vector) -> Vector:
        return state[..., : state.shape[-1] - optimizer.vectors * anchor.shape[-1]]

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, state: Vector
    ) -> tuple[Vector, Vector]:
        own = own_state(state, anchor)
        rest, delta = state[len(own) :], total.delta
        if inner.aggregate is not add_delta:
            moved, own = inner.aggregate(anchor, total, weights, steps, own)
            delta = moved - anchor
        step, rest = optimizer.update(delta, rest, *numbers)
        return anchor + step, join(own, rest)

    def init(x: Vector) -> tuple[Vector, Vector]:
        own, client = inner.init(x)
        return join(own, optimizer.start(x, *numbers)), client

    return inner._replace(init=init, aggregate=aggregate, own_state=own_state)
