"""AMSFL."""

from functools import partial

from amsfl.core import Upload
from amsfl.methods.arithmetic import (
    Arithmetic,
    Number,
    Opening,
    Vector,
    average,
    tuned,
    tuned_over,
    upload,
    zero_state,
)
from amsfl.methods.base import Cost, Facts, Method, Variant
from amsfl.methods.operators import least
from amsfl.methods.server_step import accelerated

TINY = 1e-20  # added to every ||g||^2 that something is divided by
TRIAL = 0.02  # of Polyak's length: the trial step of the opening
CURVE, POLYAK = 0.5, 0.25  # of 1/curvature and of Polyak's length: the first longest step


def amsfl(
    polyak: float = 1.0,
    closing: float = 1.0,
    balance: float = 0.5,
    search: float = 1.0,
    momentum: float = 0.8,
    averaging: float = 20.0,
    judge: float = 1.0,
    cooling: float = 0.7,
    loosening: float = 4.0,
    correction: float = 1.0,
) -> Method:
    """Every client has its own number of steps, planned by what a second is worth (planning/planner.py).

    y <- y - min(lr, p polyak loss/||g||^2) (g + k (c - c_i));   then one step more along the reading's own g
    c_i+ = (a - y)/L_i + k (c_i - c),   c+ = sum_i w_i c_i+;   L_i: the lengths of client i's steps, added up
    D = sum_i u_i (y_i - a),   u_i = w_i tau_i^-balance sum_j w_j tau_j^balance,   tau = steps + 1
    x+ = a + s D;   a+ = x+ + m (x+ - x);   what is scored: the mean of the x, weighing late ones more
    lr: opened by the curvature along a trial step, halved by the judge, cooled over the last part of a run
    p = clip(1/(3 A), 1, loosening),   A: the running mean of ||D||^2 / sum_i u_i ||y_i - a||^2

    s comes from a line search along the global path, m is Nesterov's momentum, up to `momentum`
    (methods/server_step.py); the judge goes back where rows that clients hold back get worse
    (drift/judge.py). Each part has a switch: polyak=0 takes your lr as it is, closing=0 discards the
    reading's gradient, balance=0 averages plainly and balance=1 as FedNova does, search=0 leaves s at 1 and
    clients without memory, momentum=0 and averaging=0 leave a and the scored model at x, judge=0 never goes
    back and holds no rows back, cooling=0 keeps lr, loosening=1 leaves p at 1, correction=0 leaves k at 0.
    All off, this is the paper's method: FedAvg's arithmetic with planned steps. docs/algorithm.md has all.

    Where clients disagree, steps cut at Polyak's length make a network sharp; so p is larger there
    (drift/rate.py). Where the judge went back twice clients learn what is their own by heart; so from then
    on, while all of them are there, k is 1: what their gradients have of their own is taken out (SCAFFOLD).

    Xu, "AMSFL: Adaptive Multi-Step Federated Learning via Gradient Difference-Based Error Modeling";
    Loizou et al. 2021, arXiv 2002.10542 (stochastic Polyak steps, capped);
    Karimireddy et al. 2020, arXiv 1910.06378 (SCAFFOLD, option II).
    """
    corrects = bool(correction and polyak and search and judge)
    arithmetic = tuned(partial(client_arithmetic, bool(polyak), bool(closing), corrects), polyak, balance)
    if search or momentum or averaging or judge:
        arithmetic = tuned_over(
            arithmetic,
            lambda inner, *numbers: accelerated(inner, bool(search), bool(averaging), bool(judge), *numbers),
            momentum,
            averaging,
        )

    def adapt(variant: Variant) -> Method:
        # an optimizer of the client's own moves it: steps are still planned, and the server's work stays
        client, searched = ((0.0, 0.0), 0.0) if variant.client_optimizer else ((polyak, closing), search)
        if not (variant.stale or variant.server_optimizer):
            # drift is corrected by the mean of all: where some are missing, it would be by that of others
            left = 0.0 if variant.part else correction
            other = amsfl(*client, balance, searched, momentum, averaging, judge, cooling, loosening, left)
            return _told(other, {"correction": 0.0} if variant.part else {})
        # a server that moves with a few clients at a time, some of them late, cannot search a line
        plain = amsfl(*client, balance, 0.0, 0.0, 0.0, 0.0, cooling, 1.0, 0.0)
        off = dict.fromkeys(("search", "momentum", "averaging", "judge", "correction"), 0.0)
        return _told(plain, off | {"loosening": 1.0})

    # Under privacy nothing may use raw losses, momentum mistakes noise for motion, and planned steps already
    # limit how much a client's noise counts (docs/privacy.md).
    off = ("polyak", "closing", "balance", "search", "momentum", "judge", "cooling", "correction")
    facts = Facts(
        "AMSFL",
        policy="price",
        own_rate=bool(polyak),
        cooling=cooling,
        loosest=loosening if polyak else 1.0,
        readings=True,
        private_options=tuple((name, 0.0) for name in off),
    )
    return Method("amsfl", arithmetic, Cost(extra_gradients=1.0), facts, adapt)


def _told(method: Method, options: dict[str, float]) -> Method:
    """The method; clients are sent these options of it."""
    return method._replace(facts=method.facts._replace(adapted_options=(*options.items(),)))


def client_arithmetic(
    polyak_steps: bool, closing: bool, corrects: bool, polyak: Number, balance: Number
) -> Arithmetic:
    """What clients do and how they are averaged."""

    def mix(weights: Vector, steps: Vector) -> Vector:
        share, done = average(weights, steps), (steps + int(closing)) ** balance
        return share / done * (share * done).sum()

    def stride(loss: Number, grad_sq: Number) -> Number:
        length = polyak * loss / (grad_sq + TINY)
        return length * (length > 0)  # a loss below zero says nothing about a length

    if not polyak_steps:
        return Arithmetic(mix=mix, closing=closing)
    plain = Arithmetic(mix=mix, stride=stride, closing=closing, opening=Opening(trial_length, first_rate))
    if not corrects:
        return plain

    def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad + (server - client)

    def report(
        x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        length = steps * lr
        fresh = (anchor - x) / (length + TINY) + (client - server)
        return upload(x - anchor), (length > 0) * fresh  # no way tells no gradient

    def second(steps: Number, length: Number) -> Number:
        # what `mix` divides by is put back: these vectors count by shares alone
        return (length > 0) * (steps + int(closing)) ** balance / (length + (length <= 0))

    return plain._replace(init=zero_state, correct=correct, report=report, second=second)


def trial_length(loss: Number, grad_sq: Number) -> Number:
    length = TRIAL * loss / (grad_sq + TINY)
    return length * (length > 0)


def first_rate(loss: Number, grad_sq: Number, turned: Number, length: Number) -> Number:
    """min(CURVE/c, POLYAK loss/||g||^2), c the curvature along the trial step; the latter where c <= 0."""
    curvature = turned / (length * grad_sq + TINY)
    own = POLYAK * loss / (grad_sq + TINY)
    by_curve = CURVE / (curvature * (curvature > 1e-12) + 1e-12 * (curvature <= 1e-12))
    return least(own * (own > 0), by_curve)


def planned_steps(closing: float = 1.0, balance: float = 0.25) -> Method:
    """AMSFL's planned steps alone, at your learning rate: no strides, no server steps, no momentum.

    x+ = x + sum_i u_i (y_i - x)

    What planning by itself is worth; docs/adaptivity.md.
    """
    plain = amsfl(0.0, closing, balance, *[0.0] * 7)
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
    plain = amsfl(*[0.0] * 10)
    facts = plain.facts._replace(title="AMSFL as printed", policy="printed", private_options=())
    return plain._replace(name="amsfl-paper", facts=facts, adapt=None)
