"""What the server does with a cohort's uploads."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from amsfl import combine
from amsfl.core import Reading, Total, Upload, namespace
from amsfl.methods import Method
from amsfl.methods.arithmetic import average

Vector = Any
Weighed = dict[str, Vector]  # by link of the rule: how much each client counts after it; {} without a rule
Draw = Callable[[int], Vector]  # so many standard normal numbers


class Settled(NamedTuple):
    anchor: Vector
    server: Vector
    weighed: Weighed


def settle(
    method: Method,
    anchor: Vector,
    server: Vector,
    uploads: Sequence[Upload],
    weights: Vector,
    steps: Vector,
    foes: tuple[Vector, Vector] | None = None,
    losses: Vector | None = None,
    private: tuple[Any, Draw] | None = None,
) -> Settled:
    """The next anchor and server state, from all uploads in the cohort's order; and what a rule made of them.

    `weights` are the clients' shares of all data, `steps` what each did, both in the vectors' own precision;
    `foes` who attacks how, in a simulation, and each client's random word; `losses` what clients began with,
    where they say it; `private`, where whole clients are private, the largest share of all of them and what
    draws the server's noise.
    """
    weighed: Weighed = {}
    if method.private_clients is not None and private is not None:
        total, server = private_sum(
            method, stack_uploads(uploads, weights), weights, steps, server, private, foes
        )
    elif not method.needs_all_uploads:
        total = sum_uploads(uploads, method.arithmetic.mix(weights, steps))
    else:
        total, weighed = combine_uploads(method, stack_uploads(uploads, weights), weights, steps, foes)
    loss = mean_loss(method, losses, weights, foes) if losses is not None else 0.0
    return Settled(*method.arithmetic.aggregate(anchor, Total(*total, loss), weights, steps, server), weighed)


def weigh_by_age(method: Method, sent: Upload, worth: Any, anchor: Vector, began: Vector | None) -> Upload:
    """An upload as it counts by its age, times `worth`; `began` is the model it started from, if not this."""
    if method.facts.stale == "model" and began is not None:
        delta = began + sent.delta - anchor
        sent = Upload(delta, sent.extra, (delta * delta).sum())
    return Upload(worth * sent.delta, worth * sent.extra, worth * worth * sent.delta_sq)


def mean_loss(
    method: Method, losses: Vector, weights: Vector, foes: tuple[Vector, Vector] | None = None
) -> Any:
    """The cohort's mean loss, by weight, as clients say it; under a rule, where nobody's word is worth more
    than another's, the middle one of those who count."""
    if foes is not None:
        where = namespace(weights).where
        for number, attack in enumerate(method.attacks, 1):
            if attack.told is not None:
                false = attack.told(Reading(losses, *[losses * 0] * (len(Reading._fields) - 1))).loss
                losses = where(foes[0] == number, false, losses)
    if method.combine is None:
        return (losses * weights).sum() / weights.sum()
    return combine.middle(losses, namespace(weights).astype(weights > 0, weights.dtype))


def private_sum(
    method: Method,
    uploads: Upload,
    weights: Vector,
    steps: Vector,
    server: Vector,
    private: tuple[Any, Draw],
    foes: tuple[Vector, Vector] | None = None,
) -> tuple[Upload, Vector]:
    """The sum that keeps whole clients private, and the server state that it leaves."""
    assert method.private_clients is not None
    if foes is not None:
        uploads = _forged(method, uploads, weights, steps + method.arithmetic.closing, *foes)
    return method.private_clients.apply(uploads, weights, server, *private)


def combine_uploads(
    method: Method, uploads: Upload, weights: Vector, steps: Vector, foes: tuple[Vector, Vector] | None = None
) -> tuple[Upload, Weighed]:
    """What the method's rule makes of stacked uploads [n, ...], and how much each counts after each link.

    The rule sees every upload as it would enter a plain average, so that it and its weights are all it needs:
    upload_i mix_i / share_i, with shares that sum to 1 (FedNova's are mean steps, FedAvg's deltas); and how
    many mean steps of its client each is.
    """
    if foes is not None:
        uploads = _forged(method, uploads, weights, steps + method.arithmetic.closing, *foes)
    share = average(weights, steps)
    scale = method.arithmetic.mix(weights, steps) / share
    rows = Upload(*(part * scale.reshape(-1, *[1] * (part.ndim - 1)) for part in uploads))
    counts, weighed = share, Weighed()
    if method.combine is not None:
        rows, counts, weighed = combine.weighed(
            method.combine, rows, share, scale * (steps + method.arithmetic.closing)
        )
    return Upload(*((part * counts.reshape(-1, *[1] * (part.ndim - 1))).sum(0) for part in rows)), weighed


def _forged(
    method: Method, uploads: Upload, weights: Vector, steps: Vector, foes: Vector, words: Vector
) -> Upload:
    """The uploads as they arrive where some clients attack: false mean steps, as many as were asked for."""
    where = namespace(weights).where

    def forged(part: Vector) -> Vector:
        if not part.size:
            return part
        honest = part / steps[:, None]
        for number, attack in enumerate(method.attacks, 1):
            if attack.forge is not None:
                false = steps[:, None] * attack.forge(honest, foes, words, weights)
                part = where((foes == number)[:, None], false, part)
        return part

    delta = forged(uploads.delta)
    return Upload(delta, forged(uploads.extra), where(foes > 0, (delta * delta).sum(1), uploads.delta_sq))


def sum_uploads(uploads: Sequence[Upload], mix: Vector) -> Upload:
    """sum_i mix_i upload_i, always in the same order."""
    scaled = [Upload(*(share * part for part in each)) for share, each in zip(mix, uploads, strict=True)]
    total = scaled[0]
    for each in scaled[1:]:
        total = Upload(*(a + b for a, b in zip(total, each, strict=True)))
    return total


def stack_uploads(uploads: Sequence[Upload], like: Vector) -> Upload:
    stack = namespace(like).stack
    return Upload(*(stack(part) for part in zip(*uploads, strict=True)))
