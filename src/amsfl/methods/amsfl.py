"""AMSFL: FedAvg with server momentum, planned steps and a judge."""

from typing import NamedTuple

from amsfl.core import Total, Verdict
from amsfl.core.algorithm import NUMBERS
from amsfl.methods.arithmetic import Arithmetic, Mix, Number, Vector, average, tuned
from amsfl.methods.base import Cost, Facts, Method
from amsfl.methods.operators import clip, join, where


def amsfl(momentum: float = NUMBERS.momentum, balance: float = NUMBERS.balance, judge: float = 1.0) -> Method:
    """Every client has its own number of steps, planned by what a second is worth (planning/planner.py).

    y <- y - eta g, t_i times from the anchor a;   d_i = y - a
    x+ = a + sum_i u_i d_i,   u_i = p_i t_i^-balance sum_j p_j t_j^balance
    a+ = x+ + m (x+ - x),   m = min(q/(q + 3), momentum),   q: rounds since the start or the last return

    Work that is k moves old is itself a momentum of 1 - 1/(1 + k) (Mitliagkas et al. 2016, arXiv 1605.09774),
    so m is at most 1 - (1 - momentum)(1 + k).

    x is scored. The judge (planning/judge.py) goes back to the best anchor where rows that clients hold back
    say so. momentum=0, balance=0 and judge=0 switch these parts off; FedAvg with planned steps is left.

    Xu, "AMSFL: Adaptive Multi-Step Federated Learning via Gradient Difference-Based Error Modeling";
    momentum as in Nesterov 1983 and Hsu et al. 2019, arXiv 1909.06335; balance between FedAvg and FedNova,
    Wang et al. 2020, arXiv 2007.07481.
    """

    def build(momentum: Number, balance: Number) -> Arithmetic:
        moving = accelerated(Arithmetic(mix=balanced(balance)), momentum)
        return moving if judge else moving._replace(revise=None)

    facts = Facts(
        "AMSFL",
        policy="price",
        lr=NUMBERS.lr,
        cools=True,
        readings=True,
        # noise is no motion, and held-back losses are raw
        private_options=(("momentum", 0.0), ("balance", 0.0), ("judge", 0.0)),
    )
    return Method("amsfl", tuned(build, momentum, balance), Cost(extra_gradients=1.0), facts)


def planned_steps(balance: float = 0.0) -> Method:
    """AMSFL's planned steps alone, at your learning rate: no momentum, no cooling, no judge.

    x+ = x + sum_i u_i (y_i - x)

    What planning by itself is worth; docs/evidence.md.
    """
    facts = Facts("AMSFL, steps alone", policy="price", readings=True)
    arithmetic = tuned(lambda balance: Arithmetic(mix=balanced(balance)), balance)
    return Method("amsfl-steps", arithmetic, Cost(extra_gradients=1.0), facts)


def paper() -> Method:
    """The paper's AMSFL to the letter: FedAvg's arithmetic, steps by its Algorithm 1.

    x+ = x + sum_i w_i (y_i - x),   t by Algorithm 1 within the budget

    Xu, section 3.4; why that feeds the slowest clients: docs/theory.md.
    """
    facts = Facts("AMSFL as printed", policy="printed", readings=True)
    return Method("amsfl-paper", Arithmetic(), Cost(extra_gradients=1.0), facts)


def balanced(balance: Number) -> Mix:
    """mix: what unequal steps do to the average is undone in part."""

    def mix(weights: Vector, steps: Vector) -> Vector:
        share, done = average(weights, steps), steps**balance
        return share / done * (share * done).sum()

    return mix


class ServerState(NamedTuple):
    """Of the server, besides the anchor; joined to one vector."""

    x: Vector  # the model
    best: Vector  # the anchor that the judge would go back to
    sent: Vector  # this round's anchor
    first: Vector
    run: Vector  # q, a vector of one


def accelerated(inner: Arithmetic, momentum: Number) -> Arithmetic:
    """The arithmetic with Nesterov's momentum over its mean delta, and a way back."""

    def init(x: Vector) -> tuple[Vector, Vector]:
        return join(x, x, x, x, 0 * x[:1]), inner.init(x)[1]

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        old = split(server, len(anchor))
        whole = (0 * total.delta).sum() == 0  # NaN and infinity times 0 are not 0
        x = anchor + where(whole, total.delta, 0 * anchor)
        run = old.run + 1
        most = clip(1 - (1 - momentum) * (1 + total.age), 0.0, momentum)
        following = x + clip(run / (run + NUMBERS.delay), 0.0, most) * (x - old.x)
        return following, join(*old._replace(x=x, sent=anchor, run=run))

    def model(anchor: Vector, server: Vector) -> Vector:
        return server[..., : anchor.shape[-1]]

    return inner._replace(init=init, aggregate=aggregate, model=model, revise=revised)


def revised(anchor: Vector, server: Vector, verdict: Number) -> tuple[Vector, Vector]:
    """Anchor and state after the judge's verdict: a better anchor is remembered, a worse one left."""
    old = split(server, len(anchor))
    again, left = verdict == Verdict.RESTART, (verdict == Verdict.BACK) | (verdict == Verdict.RESTART)
    best = where(again, old.first, where(verdict == Verdict.BETTER, old.sent, old.best))
    now = old._replace(x=where(left, best, old.x), best=best, run=where(left, 0 * old.run, old.run))
    return where(left, best, anchor), join(*now)


def split(server: Vector, size: int) -> ServerState:
    """The parts of a server state."""
    x, best, sent, first = (server[place * size : (place + 1) * size] for place in range(4))
    return ServerState(x, best, sent, first, server[4 * size :])
