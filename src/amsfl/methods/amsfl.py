"""AMSFL: FedAvg with server momentum, planned steps and a judge."""

from dataclasses import dataclass, field
from typing import NamedTuple

from amsfl.core import Total, Verdict
from amsfl.core.algorithm import NUMBERS
from amsfl.methods.base import STATIC, Facts, Method, Number, Vector, average, clip, join, where


class ServerState(NamedTuple):
    """Of the server, besides the anchor; joined to one vector."""

    x: Vector  # the model
    best: Vector  # the anchor that the judge would go back to
    sent: Vector  # this round's anchor
    first: Vector
    run: Vector  # q, a vector of one


@dataclass(frozen=True)
class Amsfl(Method):
    """Every client has its own number of steps, planned by what a second is worth (planning/planner.py).

    y <- y - eta g, t_i times from the anchor a;   d_i = y - a
    x+ = a + sum_i u_i d_i,   u_i = p_i t_i^-balance sum_j p_j t_j^balance
    a+ = x+ + m (x+ - x),   m = min(q/(q + 3), momentum),   q: rounds since the start or the last return

    Work that is k moves old is itself a momentum of 1 - 1/(1 + k) (Mitliagkas et al. 2016, arXiv 1605.09774),
    so m is at most 1 - (1 - momentum)(1 + k).

    x is scored. The judge (planning/learning.py) goes back to the best anchor where rows that clients hold
    back say so. momentum=0, balance=0 and judge=0 switch these parts off; FedAvg with planned steps is left.

    Xu, "AMSFL: Adaptive Multi-Step Federated Learning via Gradient Difference-Based Error Modeling";
    momentum as in Nesterov 1983 and Hsu et al. 2019, arXiv 1909.06335; balance between FedAvg and FedNova,
    Wang et al. 2020, arXiv 2007.07481.
    """

    momentum: Number = NUMBERS.momentum
    balance: Number = NUMBERS.balance
    judge: float = field(default=1.0, metadata=STATIC)
    facts = Facts(
        "amsfl",
        "AMSFL",
        policy="price",
        lr=NUMBERS.lr,
        cools=True,
        readings=True,
        # noise is no motion, and held-back losses are raw
        private_options=(("momentum", 0.0), ("balance", 0.0), ("judge", 0.0)),
        extra_gradients=1.0,
    )

    @property
    def judges(self) -> bool:  # type: ignore[override]
        return bool(self.judge)

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        return join(x, x, x, x, 0 * x[:1]), x[:0]

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        return balanced(weights, steps, self.balance)

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        old = split(server, len(anchor))
        whole = (0 * total.delta).sum() == 0  # NaN and infinity times 0 are not 0
        x = anchor + where(whole, total.delta, 0 * anchor)
        run = old.run + 1
        most = clip(1 - (1 - self.momentum) * (1 + total.age), 0.0, self.momentum)
        following = x + clip(run / (run + NUMBERS.delay), 0.0, most) * (x - old.x)
        return following, join(*old._replace(x=x, sent=anchor, run=run))

    def model(self, anchor: Vector, server: Vector) -> Vector:
        return server[..., : anchor.shape[-1]]

    def revise(self, anchor: Vector, server: Vector, verdict: Number) -> tuple[Vector, Vector]:
        """A better anchor is remembered, a worse one left."""
        old = split(server, len(anchor))
        again, left = verdict == Verdict.RESTART, (verdict == Verdict.BACK) | (verdict == Verdict.RESTART)
        best = where(again, old.first, where(verdict == Verdict.BETTER, old.sent, old.best))
        now = old._replace(x=where(left, best, old.x), best=best, run=where(left, 0 * old.run, old.run))
        return where(left, best, anchor), join(*now)


@dataclass(frozen=True)
class AmsflSteps(Method):
    """AMSFL's planned steps alone, at your learning rate: no momentum, no cooling, no judge.

    x+ = x + sum_i u_i (y_i - x)

    What planning by itself is worth; docs/evidence.md.
    """

    balance: Number = 0.0
    facts = Facts("amsfl-steps", "AMSFL, steps alone", policy="price", readings=True, extra_gradients=1.0)

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        return balanced(weights, steps, self.balance)


@dataclass(frozen=True)
class AmsflPaper(Method):
    """The paper's AMSFL to the letter: FedAvg's arithmetic, steps by its Algorithm 1.

    x+ = x + sum_i w_i (y_i - x),   t by Algorithm 1 within the budget

    Xu, section 3.4; why that feeds the slowest clients: docs/theory.md.
    """

    facts = Facts("amsfl-paper", "AMSFL as printed", policy="printed", readings=True, extra_gradients=1.0)


def balanced(weights: Vector, steps: Vector, balance: Number) -> Vector:
    """Shares in which what unequal steps do to the average is undone in part."""
    share, done = average(weights), steps**balance
    return share / done * (share * done).sum()


def split(server: Vector, size: int) -> ServerState:
    """The parts of a server state."""
    x, best, sent, first = server[: 4 * size].reshape(4, size)
    return ServerState(x, best, sent, first, server[4 * size :])
