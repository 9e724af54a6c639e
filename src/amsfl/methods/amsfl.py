"""AMSFL."""

from typing import Any

from amsfl.core import Upload
from amsfl.methods.base import Method, Vector, average
from amsfl.methods.extrapolate import server_step


def amsfl(
    polyak: float = 1.0, closing: float = 1.0, balance: float = 0.5, cap: float = 4.0, momentum: float = 0.8
) -> Method:
    """Every client has its own number of steps, planned by what a second is worth (federation/planner.py).

    y <- y - min(lr, polyak loss/||g||^2) g;   then one step more along the reading's own gradient
    x+ = a + s sum_i u_i (y_i - a),   u_i = w_i tau_i^-balance sum_j w_j tau_j^balance,  tau = steps + 1
    a+ = x+ + momentum (x+ - x),   s = FedExP's step, up to `cap`

    a is the anchor, x the model that is scored. Each part has a switch: polyak=0 takes lr as it is,
    closing=0 discards the reading's gradient, balance=0 averages plainly and balance=1 as FedNova does,
    cap=1 and momentum=0 leave the server's step alone. All off, this is the paper's method: FedAvg's
    arithmetic with planned steps. docs/research-log.md has each part's worth.

    Xu, "AMSFL: Adaptive Multi-Step Federated Learning via Gradient Difference-Based Error Modeling";
    Loizou et al. 2021, arXiv 2002.10542 (stochastic Polyak steps, capped); arXiv 2301.09604 (FedExP).
    """

    def init(x: Vector) -> tuple[Vector, Vector]:
        return (1 * x if momentum else x[:0]), x[:0]

    def mix(weights: Vector, steps: Vector) -> Vector:
        share, done = average(weights, steps), (steps + bool(closing)) ** balance
        return share / done * (share * done).sum()

    def aggregate(
        anchor: Vector, total: Upload, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        x = anchor + server_step(total, 1.0, cap) * total.delta
        return (x + momentum * (x - server), x) if momentum else (x, server)

    def model(anchor: Vector, server: Vector) -> Vector:
        return server if momentum else anchor

    def stride(loss: Any, grad_sq: Any) -> Any:
        length = polyak * loss / (grad_sq + 1e-12)
        return length * (length > 0)  # a loss below zero says nothing about a length

    return Method(
        "amsfl",
        init=init,
        mix=mix,
        aggregate=aggregate,
        model=model,
        stride=stride if polyak else None,
        title="AMSFL",
        policy="price",
        own_rate=bool(polyak),
        readings=True,
        closing=bool(closing),
        extra_gradients=1.0,
    )


def planned_steps(closing: float = 1.0, balance: float = 0.5) -> Method:
    """AMSFL's planned steps alone, at your learning rate: no strides, no extrapolation, no momentum.

    x+ = x + sum_i u_i (y_i - x)

    What planning by itself is worth; docs/adaptivity.md.
    """
    bare = amsfl(0.0, closing, balance, cap=1.0, momentum=0.0)
    return bare._replace(name="amsfl-steps", title="AMSFL, steps alone")


def paper() -> Method:
    """The paper's AMSFL to the letter: FedAvg's arithmetic, steps by its Algorithm 1.

    x+ = x + sum_i w_i (y_i - x),   t by Algorithm 1 within the budget

    Xu, section 3.4; why that feeds the slowest clients: docs/theory.md.
    """
    bare = amsfl(0.0, closing=0.0, balance=0.0, cap=1.0, momentum=0.0)
    return bare._replace(name="amsfl-paper", title="AMSFL as printed", policy="printed")
