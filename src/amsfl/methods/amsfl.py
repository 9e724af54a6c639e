"""AMSFL."""

from typing import Any

from amsfl.methods.base import Method, Vector, average
from amsfl.methods.server_step import Pace, accelerated


def amsfl(
    polyak: float = 1.0,
    closing: float = 1.0,
    balance: float = 0.25,
    secant: float = 1.0,
    momentum: float = 0.95,
    averaging: float = 20.0,
    shrinking: float = 0.005,
) -> Method:
    """Every client has its own number of steps, planned by what a second is worth (planning/planner.py).

    y <- y - min(lr, polyak loss/||g||^2) g;   then one step more along the reading's own gradient
    D = sum_i u_i (y_i - a),   u_i = w_i tau_i^-balance sum_j w_j tau_j^balance,   tau = steps + 1
    x+ = a + s D;   a+ = x+ + m (x+ - x);   what is scored: the mean of the x, weighing late ones more

    s is the server's secant step and m Nesterov's momentum, up to `momentum` (methods/server_step.py). Each
    part has a switch: polyak=0 takes lr as it is, closing=0 discards the reading's gradient, balance=0
    averages plainly and balance=1 as FedNova does, secant=0 leaves s at 1, momentum=0 and averaging=0
    leave a and the scored model at x. All off, this is the paper's method: FedAvg's arithmetic with
    planned steps. docs/research-log.md has each part's worth.

    Xu, "AMSFL: Adaptive Multi-Step Federated Learning via Gradient Difference-Based Error Modeling";
    Loizou et al. 2021, arXiv 2002.10542 (stochastic Polyak steps, capped).
    """
    pace = Pace(bool(secant), momentum, averaging, shrinking)
    more = int(bool(closing))

    def mix(weights: Vector, steps: Vector) -> Vector:
        share, done = average(weights, steps), (steps + more) ** balance
        return share / done * (share * done).sum()

    def stride(loss: Any, grad_sq: Any) -> Any:
        length = polyak * loss / (grad_sq + 1e-12)
        return length * (length > 0)  # a loss below zero says nothing about a length

    bare = Method(
        "amsfl",
        mix=mix,
        stride=stride if polyak else None,
        title="AMSFL",
        policy="price",
        own_rate=bool(polyak),
        readings=True,
        closing=bool(closing),
        extra_gradients=1.0,
        # nothing looks at anything raw, momentum and secant take noise for motion, and planned steps say how
        # much a client's noise may count (docs/privacy.md)
        private=(("polyak", 0.0), ("closing", 0.0), ("momentum", 0.0), ("secant", 0.0), ("balance", 0.0)),
    )
    whole = accelerated(bare, pace)
    if any(pace):  # a server that moves with a few at a time, some of them late, has no secant to go by
        whole = whole._replace(aloft=bare, stepless=bare)
    if not (polyak or closing):
        return whole
    # with an optimizer of their own, clients move by that: its steps are planned, and the server's work stays
    rest = amsfl(0.0, 0.0, balance, secant, momentum, averaging, shrinking)
    return whole._replace(driven=rest)


def planned_steps(closing: float = 1.0, balance: float = 0.25) -> Method:
    """AMSFL's planned steps alone, at your learning rate: no strides, no server steps, no momentum.

    x+ = x + sum_i u_i (y_i - x)

    What planning by itself is worth; docs/adaptivity.md.
    """
    bare = amsfl(0.0, closing, balance, secant=0.0, momentum=0.0, averaging=0.0, shrinking=0.0)
    return bare._replace(
        name="amsfl-steps", title="AMSFL, steps alone", private=(("closing", 0.0), ("balance", 0.0))
    )


def paper() -> Method:
    """The paper's AMSFL to the letter: FedAvg's arithmetic, steps by its Algorithm 1.

    x+ = x + sum_i w_i (y_i - x),   t by Algorithm 1 within the budget

    Xu, section 3.4; why that feeds the slowest clients: docs/theory.md.
    """
    bare = amsfl(0.0, closing=0.0, balance=0.0, secant=0.0, momentum=0.0, averaging=0.0, shrinking=0.0)
    return bare._replace(name="amsfl-paper", title="AMSFL as printed", policy="printed", private=())
