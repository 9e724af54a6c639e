"""What the server does with a cohort's uploads."""

from collections.abc import Callable, Iterable
from operator import iadd
from typing import NamedTuple

from amsfl import combine
from amsfl.core import Reading, Total, Upload, namespace
from amsfl.methods import Method, Number, Vector
from amsfl.methods.arithmetic import average

Attackers = Vector | None  # which attack of the method each client makes, from 1; 0: none
Weighed = dict[str, Vector]  # by link of the rule: how much each client counts after it; {} without a rule
Draw = Callable[[int], Vector]  # so many standard normal numbers


class CohortWork(NamedTuple):
    """What a cohort sent, in its order, and what the server knows of it."""

    uploads: Iterable[Upload]
    weights: Vector  # shares of all clients' data, in the vectors' own precision
    steps: Vector  # what each client did, in that precision, too
    attackers: Attackers = None  # of a simulation
    private: tuple[Number, Draw] | None = None  # the largest share of all clients, and the server's noise
    age: Number = 0.0  # moves of the server since this work began, on average
    history: Vector | None = None  # [n, ...] what the method's rule remembers of them; None: nothing yet
    total: Upload | None = None  # the uploads' sum, where an engine has it already


class Settled(NamedTuple):
    anchor: Vector
    server: Vector
    weighed: Weighed
    history: Vector | None  # of the cohort's clients


def sent_state(method: Method, server: Vector, anchor: Vector) -> Vector:
    """What clients receive of the server state: nothing, or the method's own without an optimizer's."""
    return method.arithmetic.own_state(server, anchor) if method.cost.vectors_down > 1 else server[:0]


def compares_uploads(method: Method) -> bool:
    """Whether a cohort's uploads are compared with each other, not just summed."""
    forged = any(each.forge for each in method.attacks)
    return method.combine is not None or method.private_clients is not None or forged


def remembers(method: Method) -> int:
    """Numbers that its rule over uploads keeps of every client from round to round."""
    return 0 if method.combine is None else method.combine.remembers


def settle(method: Method, anchor: Vector, server: Vector, cohort: CohortWork) -> Settled:
    """The next anchor and server state, and what a rule made of the uploads."""
    uploads, weights, steps, attackers, private, age, history, total = cohort
    weighed: Weighed = {}
    if method.private_clients is not None and private is not None:
        sent = forge(method, stack_uploads(uploads, weights), weights, steps, attackers)
        total = method.private_clients.apply(sent, weights, *private)
    elif compares_uploads(method):
        stacked = stack_uploads(uploads, weights)
        total, weighed, history = combine_uploads(method, stacked, weights, steps, attackers, history)
    elif total is None:
        total = sum_uploads(uploads, method.arithmetic.mix(weights, steps))
    moved = method.arithmetic.aggregate(anchor, Total(*total, age), weights, steps, server)
    return Settled(*moved, weighed, history)


def weigh_by_age(method: Method, sent: Upload, worth: Number, anchor: Vector, began: Vector | None) -> Upload:
    """An upload times what its age leaves of it; `began` is the model it started from, if not this one."""
    if method.facts.stale == "model" and began is not None:
        delta = began + sent.delta - anchor
        sent = Upload(delta, sent.extra, (delta * delta).sum())
    return Upload(worth * sent.delta, worth * sent.extra, worth * worth * sent.delta_sq)


def combine_uploads(
    method: Method,
    uploads: Upload,
    weights: Vector,
    steps: Vector,
    attackers: Attackers = None,
    history: Vector | None = None,
) -> tuple[Upload, Weighed, Vector | None]:
    """What the method's rule makes of stacked uploads [n, ...], how much each counts after each link, and
    what the rule remembers of the clients.

    The rule sees every upload as it would enter a plain average, so that it and its weights are all it needs:
    upload_i mix_i / share_i, with shares that sum to 1 (FedNova's are mean steps, FedAvg's deltas); and how
    many mean steps of its client each is.
    """
    uploads = forge(method, uploads, weights, steps, attackers)
    share = average(weights, steps)
    scale = method.arithmetic.mix(weights, steps) / share
    rows = Upload(*(part * scale.reshape(-1, *[1] * (part.ndim - 1)) for part in uploads))
    counts, weighed = share, Weighed()
    if method.combine is not None:
        done = scale * steps
        rows, counts, weighed, history = combine.weighed(method.combine, rows, share, done, history)
    total = Upload(*((part * counts.reshape(-1, *[1] * (part.ndim - 1))).sum(0) for part in rows))
    return total, weighed, history


def forge(method: Method, uploads: Upload, weights: Vector, steps: Vector, attackers: Attackers) -> Upload:
    """The uploads as they arrive where some clients attack: false mean steps, as many as were asked for."""
    if attackers is None:
        return uploads
    where = namespace(weights).where
    done = steps[:, None]

    def forged(part: Vector) -> Vector:
        if not part.size:
            return part
        honest = part / done
        for number, attack in enumerate(method.attacks, 1):
            if attack.forge is not None:
                part = where(
                    (attackers == number)[:, None], done * attack.forge(honest, attackers, weights), part
                )
        return part

    delta = forged(uploads.delta)
    return Upload(
        delta, forged(uploads.extra), where(attackers > 0, (delta * delta).sum(1), uploads.delta_sq)
    )


def sum_uploads(uploads: Iterable[Upload], mix: Vector) -> Upload:
    """sum_i mix_i upload_i, always in the same order.

    One at a time, and nothing is kept of the last one when the next one is read: it may come from disk.
    """
    total: Upload | None = None
    following = iter(uploads)
    for share in mix:
        scaled = Upload(*(share * part for part in next(following)))
        total = scaled if total is None else Upload(*map(iadd, total, scaled))  # our own arrays: in place
        del scaled
    assert total is not None
    return total


def stack_uploads(uploads: Iterable[Upload], like: Vector) -> Upload:
    stack = namespace(like).stack
    return Upload(*(stack(part) for part in zip(*uploads, strict=True)))


def measured(reading: Reading | None, delta: Vector, direction: Vector) -> Reading:
    """The reading with what the server sees of an upload; of a client that sends none, that alone."""
    square, along = (delta * delta).sum(), (delta * direction).sum()
    if reading is None:
        nothing = 0 * square
        reading = Reading(nothing, nothing, nothing, nothing, *(nothing * float("nan"),) * 2)
    return reading._replace(delta_sq=square, delta_dir=along)
