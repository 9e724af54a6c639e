"""How far the server goes along the clients' mean delta: a measured step, momentum, a mean to score.

D, the mean delta at an anchor a, is a descent direction that costs a round to ask for. Two rounds give a
secant of that field: over the way da = a - a' it changed by dD = D' - D. Where the way was too long D turns
round (dD . da is large), where it is straight D stays as it is, and noise, which has no memory, adds to
||dD|| alone: so steps shorten at a loss's floor without anybody knowing that there is one.

    short = da.dD / ||dD||^2      long = ||da||^2 / da.dD      (Barzilai and Borwein 1988)
    s <- short^3/4 long^1/4, by a factor of 0.7 at most a round, within 0.1 and 4; the sums halved each round
    D <- D - `shrinking` l a,   l = loss / first loss, smoothed, at most 1
    x+ = a + s D
    a+ = x+ + m (x+ - x),   m = (r + 3)/(r + 6), at most `momentum`      (Nesterov's, three rounds ahead)
    scored: z+ = z + p/(r + p) (x+ - z),   p = `averaging`; r counts rounds from 0

Taking a part of the model away (weight decay) keeps out what only one client's rows ask for, and costs where
large weights are right. The loss tells the two apart: where labels are wrong or classes overlap it stays
high, where they are clean it goes to zero, and l with it.

All of it happens at the server: nothing is sent for it, in either direction.
"""

from typing import NamedTuple

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Number, Vector
from amsfl.methods.operators import clip, join

LIMIT = 0.7  # a round changes the server's step by this factor at most, down or (1/0.7) up
SHORTEST, LONGEST = 0.1, 4.0
REMEMBERED = 0.5  # of the secant's sums, from round to round
EARLY, FADING = 3, 3  # momentum (r + 3)/(r + 3 + 3)
SMOOTHING = 0.7  # of the old loss that stays
SCALARS = 7


def accelerated(
    inner: Arithmetic, secant: bool, averages: bool, momentum: Number, averaging: Number, shrinking: Number
) -> Arithmetic:
    """The arithmetic with this server on top of its mean delta; its own server state must be empty.

    The state is one vector: a', D', z, then s, the three sums of the secant, r, the first loss and the
    smoothed one.
    """

    def init(x: Vector) -> tuple[Vector, Vector]:
        _, client = inner.init(x)
        nothing = 0 * x
        one = (nothing[:1] + 1, *[nothing[:1]] * (SCALARS - 1))
        return join(x, nothing, x, *one), client

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        old = _split(server, len(anchor))
        loss0, loss = _losses(total.loss, old)
        delta = total.delta - shrinking * _share(loss, loss0) * anchor
        sums = _sums(anchor - old.anchor, old.delta - delta, old)
        s = _step(old, sums) if secant else old.s
        x, before = anchor + s * delta, old.anchor + old.s * old.delta
        m = (old.number + EARLY) / (old.number + EARLY + FADING)
        m = clip(m, 0.0, momentum)
        mean = old.mean + averaging / (old.number + averaging) * (x - old.mean) if averages else x
        following = x + m * (x - before)
        return following, join(anchor, delta, mean, s, *sums, old.number + 1, loss0, loss)

    def model(anchor: Vector, server: Vector) -> Vector:
        size = anchor.shape[-1]
        return server[..., 2 * size : 3 * size]

    return inner._replace(init=init, aggregate=aggregate, model=model)


class ServerStepState(NamedTuple):
    """Numbers are vectors of one: so everything joins to one vector."""

    anchor: Vector
    delta: Vector
    mean: Vector
    s: Vector
    way: Vector  # ||da||^2
    along: Vector  # da . dD
    change: Vector  # ||dD||^2
    number: Vector
    loss0: Vector  # the first round's
    loss: Vector  # smoothed


def _split(server: Vector, size: int) -> ServerStepState:
    vectors = (server[place * size : (place + 1) * size] for place in range(3))
    tail = server[3 * size :]
    return ServerStepState(*vectors, *(tail[place : place + 1] for place in range(SCALARS)))


def _sums(way: Vector, change: Vector, old: ServerStepState) -> tuple[Number, Number, Number]:
    """The secant's three products; in the first round there is none, in the second none older."""
    begun, older = _as(old.number, old.number > 0), REMEMBERED * _as(old.number, old.number > 1)
    fresh = (begun * (way * way).sum(), begun * (way * change).sum(), begun * (change * change).sum())
    sums = [older * past + (1 - older) * now for past, now in zip(old[4:7], fresh, strict=True)]
    return sums[0], sums[1], sums[2]


def _losses(loss: Number, old: ServerStepState) -> tuple[Number, Number]:
    """The first loss and the smoothed one; in the first round both are this one."""
    begun = _as(old.number, old.number > 0)
    smoothed = SMOOTHING * old.loss + (1 - SMOOTHING) * loss
    return old.loss0 * begun + loss * (1 - begun), smoothed * begun + loss * (1 - begun)


def _share(loss: Vector, first: Vector) -> Vector:
    """loss / first within 0 and 1; 0 where the first is not above 0, and so says nothing."""
    positive = _as(first, first > 0)
    return clip(positive * loss / (first * positive + 1 - positive), 0.0, 1.0)


def _step(old: ServerStepState, sums: tuple[Number, Number, Number]) -> Number:
    """short^3/4 long^1/4 = way^1/4 along^1/2 / change^3/4; where D does not turn, as long as allowed."""
    way, along, change = sums
    turns, straight = _as(along, along > 0), _as(along, along <= 0)
    measured = way**0.25 * (along * turns) ** 0.5 / (change * turns + straight) ** 0.75
    limited = clip(measured + straight * LONGEST / LIMIT, LIMIT * old.s, old.s / LIMIT)
    begun = _as(along, old.number > 0)
    return clip(limited, SHORTEST, LONGEST) * begun + old.s * (1 - begun)


def _as(like: Vector, flag: Number) -> Vector:
    """A comparison's outcome as 0 or 1 in another number's precision."""
    return 0 * like + flag
