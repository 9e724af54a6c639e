"""AMSFL."""

from functools import partial

from amsfl.methods.arithmetic import Arithmetic, Number, Vector, average, tuned, tuned_over
from amsfl.methods.base import Cost, Facts, Method, Variant
from amsfl.methods.server_step import accelerated


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
    arithmetic = tuned(partial(client_arithmetic, bool(polyak), bool(closing)), polyak, balance)
    if secant or momentum or averaging or shrinking:
        arithmetic = tuned_over(
            arithmetic,
            lambda inner, *numbers: accelerated(inner, bool(secant), bool(averaging), *numbers),
            momentum,
            averaging,
            shrinking,
        )

    def adapt(variant: Variant) -> Method:
        # an optimizer of the client's own moves it: steps are still planned, and the server's work stays
        client = (0.0, 0.0) if variant.client_optimizer else (polyak, closing)
        # a server that moves with a few clients at a time, some of them late, cannot measure a secant
        replaced = variant.stale or variant.server_optimizer
        server = (0.0,) * 4 if replaced else (secant, momentum, averaging, shrinking)
        return amsfl(*client, balance, *server)

    # Under privacy nothing may use raw losses, momentum and secant mistake noise for motion, and planned
    # steps already limit how much a client's noise counts (docs/privacy.md).
    off = (("polyak", 0.0), ("closing", 0.0), ("momentum", 0.0), ("secant", 0.0), ("balance", 0.0))
    facts = Facts("AMSFL", policy="price", own_rate=bool(polyak), readings=True, private_options=off)
    return Method("amsfl", arithmetic, Cost(extra_gradients=1.0), facts, adapt)


def client_arithmetic(polyak_steps: bool, closing: bool, polyak: Number, balance: Number) -> Arithmetic:
    """What clients do and how they are averaged."""

    def mix(weights: Vector, steps: Vector) -> Vector:
        share, done = average(weights, steps), (steps + int(closing)) ** balance
        return share / done * (share * done).sum()

    def stride(loss: Number, grad_sq: Number) -> Number:
        length = polyak * loss / (grad_sq + 1e-12)
        return length * (length > 0)  # a loss below zero says nothing about a length

    return Arithmetic(mix=mix, stride=stride if polyak_steps else None, closing=closing)


def planned_steps(closing: float = 1.0, balance: float = 0.25) -> Method:
    """AMSFL's planned steps alone, at your learning rate: no strides, no server steps, no momentum.

    x+ = x + sum_i u_i (y_i - x)

    What planning by itself is worth; docs/adaptivity.md.
    """
    plain = amsfl(0.0, closing, balance, secant=0.0, momentum=0.0, averaging=0.0, shrinking=0.0)
    off = (("closing", 0.0), ("balance", 0.0))
    return plain._replace(
        name="amsfl-steps",
        facts=plain.facts._replace(title="AMSFL, steps alone", private_options=off),
        adapt=lambda variant: planned_steps(0.0 if variant.client_optimizer else closing, balance),
    )


def paper() -> Method:
    """The paper's AMSFL to the letter: FedAvg's arithmetic, steps by its Algorithm 1.

    x+ = x + sum_i w_i (y_i - x),   t by Algorithm 1 within the budget

    Xu, section 3.4; why that feeds the slowest clients: docs/theory.md.
    """
    plain = amsfl(0.0, closing=0.0, balance=0.0, secant=0.0, momentum=0.0, averaging=0.0, shrinking=0.0)
    facts = plain.facts._replace(title="AMSFL as printed", policy="printed", private_options=())
    return plain._replace(name="amsfl-paper", facts=facts, adapt=None)
