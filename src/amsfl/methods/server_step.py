"""How far the server goes along the clients' mean delta: a line search, momentum, a mean to score; and back.

D, the mean delta at an anchor a, is a descent direction that costs a round to ask for. Over the last global
step v = a - a' clients know how steeply their loss fell where v began (A) and where it ended (E): a line
through the two slopes says that the way should have been A/(A - E) times as long.

    first round:  s = clip(1/2 sum_i u_i ||d_i||^2 / ||D||^2, 1, 2)           (FedExP, arXiv 2301.09604)
    then:         A <- (A + sum_i p_i way_begin_i)/2,  E <- (E + sum_i p_i way_end_i)/2
                  alpha = 0 if A <= 0;  9 if A <= E;  else A/(A - E)
                  s <- clip(s clip(sqrt(alpha/0.7), 1/1.4, 1.4), 1, 8)
                  s <- max(s/1.4, 1) where less than half of the round, by weight, was in the one before:
                  a few clients' slopes are noise, and s would wander by it
    x+ = a + s D;   q <- q + 1;   m = min(q/(q + 3), `momentum`);   a+ = x+ + m (x+ - x)       (Nesterov's)
    n <- n + 1;   z <- z + p/(n + p - 1) (x+ - z),   p = `averaging`;  z is scored and delivered
    c <- -sum_i w_i d_i/L_i where clients correct their drift: the mean of what they stepped along, by shares

A round whose D is not finite leaves s and c and stays where it is. The judge's verdict (drift/judge.py) makes
this round's anchor the best one, goes back to the best one, or begins again from the first model with s = 1.
In a branch, which also begins there, z is the best anchor until the branch is better.
"""

from typing import NamedTuple

from amsfl.core import Total, Verdict
from amsfl.methods.arithmetic import Arithmetic, Number, Vector
from amsfl.methods.operators import clip, join, where

LEAD = 2.0  # the longest first step
AIM, LIMIT = 0.7, 1.4  # of the way that the two slopes ask for; a round changes s by this factor at most
SHORTEST, LONGEST = 1.0, 8.0
FOLDED = 0.5  # of the old slopes that stays
FADING = 3.0  # momentum q/(q + 3)
STRAIGHT = 9.0  # alpha where the slope has not fallen at all
ENOUGH = 0.5  # of the round's weight: less that tells slopes tells nothing
TINY = 1e-20


class ServerStepState(NamedTuple):
    """Numbers are vectors of one: so everything joins to one vector."""

    x: Vector
    scored: Vector
    best: Vector  # the anchor that the judge would go back to
    sent: Vector  # this round's anchor
    first: Vector
    control: Vector  # c; empty where clients do not correct their drift
    s: Vector
    begin: Vector  # A
    end: Vector  # E
    read: Vector  # whether A and E were ever read
    moved: Vector  # whether s has had its first round
    longest: Vector
    run: Vector  # q
    count: Vector  # n
    frozen: Vector  # whether the scored model stays, until a branch is better


VECTORS = 5  # and `control`
SCALARS = len(ServerStepState._fields) - VECTORS - 1


def accelerated(
    inner: Arithmetic, search: bool, averages: bool, judge: bool, momentum: Number, averaging: Number
) -> Arithmetic:
    """The arithmetic with this server on top of its mean delta. Its own server state is empty, or c."""

    def init(x: Vector) -> tuple[Vector, Vector]:
        none = 0 * x[:1]
        scalars = none + 1, *[none] * 4, none + LONGEST, *[none] * 3
        control, own = inner.init(x)
        return join(*[x] * VECTORS, control, *scalars), join(own, 0 * x, none) if search else own

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        old = _split(server, len(anchor))
        # NaN and infinity times 0 are not 0
        whole = (0 * total.delta).sum() == 0 if total.square is None else 0 * total.square == 0
        delta = where(whole, total.delta, 0 * anchor)
        now = _searched(old, total, delta, whole) if search else old
        x = anchor + now.s * delta
        run, count = (old.run + 1) * whole, old.count + 1
        m = clip(run / (run + FADING), 0.0, momentum)
        mean = old.scored + averaging / (count + averaging - 1) * (x - old.scored) if averages else x
        mean = where(old.frozen > 0, old.scored, mean)
        if inner.second is not None:
            counts = (inner.mix(weights, steps) * inner.second(steps, 0 * steps + 1)).sum()
            control = -total.extra / counts
            now = now._replace(control=where(whole & ((0 * control).sum() == 0), control, old.control))
        following = x + m * (x - old.x)
        return following, join(*now._replace(x=x, scored=mean, sent=anchor, run=run, count=count))

    def model(anchor: Vector, server: Vector) -> Vector:
        size = anchor.shape[-1]
        return server[..., size : 2 * size]

    def control(server: Vector, anchor: Vector) -> Vector:
        size = anchor.shape[-1]
        return server[..., VECTORS * size : (VECTORS + 1) * size]

    return inner._replace(
        init=init,
        aggregate=aggregate,
        model=model,
        keeps_gradient=search,
        revise=revised if judge else None,
        pieces=(aggregate, VECTORS + (inner.second is not None)),
        own_state=control if inner.second is not None else inner.own_state,
    )


def revised(anchor: Vector, server: Vector, verdict: Number) -> tuple[Vector, Vector]:
    """The state after a verdict: a better anchor is remembered, a worse one left, a dead network begun anew
    from the first model; so is a branch, but what is scored is then the best anchor until it is better."""
    old = _split(server, len(anchor))
    again, back, branch = verdict == Verdict.RESTART, verdict == Verdict.BACK, verdict == Verdict.BRANCH
    better, anew = verdict == Verdict.BETTER, again | branch
    best = where(again, old.first, where(better, old.sent, old.best))
    taken = better & (old.frozen > 0)

    def kept(value: Vector, otherwise: float = 0.0) -> Vector:
        return where(anew, 0 * value + otherwise, value)

    def chosen(value: Vector) -> Vector:
        return where(anew, old.first, where(back, best, value))

    def counted(value: Vector) -> Vector:
        return where(back | anew, 0 * value, value)

    now = old._replace(
        x=chosen(old.x),
        scored=where(back | anew, best, where(taken, old.x, old.scored)),
        best=best,
        s=kept(old.s, 1.0),
        begin=kept(old.begin),
        end=kept(old.end),
        read=kept(old.read),
        moved=kept(old.moved),
        longest=kept(old.longest, 1.0),
        run=counted(old.run),
        count=where(taken, 0 * old.count + 1, counted(old.count)),
        frozen=where(branch, 0 * old.frozen + 1, where(back | again | better, 0 * old.frozen, old.frozen)),
    )
    return chosen(anchor), join(*now)


def _split(server: Vector, size: int) -> ServerStepState:
    vectors = [server[place * size : (place + 1) * size] for place in range(VECTORS)]
    vectors.append(server[VECTORS * size : -SCALARS])
    tail = server[-SCALARS:]
    return ServerStepState(*vectors, *(tail[place : place + 1] for place in range(SCALARS)))


def _searched(old: ServerStepState, total: Total, delta: Vector, whole: Number) -> ServerStepState:
    """s and the two slopes after this round; as they were where it is not whole."""
    square = (delta * delta).sum() if total.square is None else total.square
    ratio = 0.5 * total.delta_sq / (square + TINY)
    first = clip(clip(ratio, 1.0, LEAD) + 0 * old.s, 1.0, old.longest)
    readable = whole & (old.moved > 0) & (total.ways >= ENOUGH)
    older = FOLDED * old.read
    begin = older * old.begin + (1 - older) * total.way_begin
    end = older * old.end + (1 - older) * total.way_end
    readable = readable & (0 * (begin + end) == 0)
    begin, end = where(readable, begin, old.begin), where(readable, end, old.end)
    falls = begin > end
    alpha = where(falls, begin / where(falls, begin - end, 0 * begin + 1), 0 * begin + STRAIGHT)
    alpha = where(begin > 0, alpha, 0 * alpha)
    further = clip(old.s * clip((alpha / AIM) ** 0.5, 1 / LIMIT, LIMIT), SHORTEST, old.longest)
    shorter = clip(old.s / LIMIT, SHORTEST, old.longest)
    s = where(old.moved > 0, where(readable, further, shorter), first)
    one = 0 * old.s + 1
    return old._replace(
        s=where(whole, s, old.s),
        begin=begin,
        end=end,
        read=where(readable, one, old.read),
        moved=where(whole, one, old.moved),
    )
