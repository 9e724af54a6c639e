"""One round between a client and the server, written once: simulated and real ones run the same lines.

A client:
    state = begin(LocalState(anchor, server, client, lr))
    state = local_step(method, state, grad)       each local step; of the first one loss and grad are kept
    state = state._replace(last=grad)             for a reading: the first minibatch once more
    upload, client, reading = finish(method, state, steps)
    parts, memory = encode(transmit, key, upload, memory)

The server: decode, settle. Operators only, so vectors may be of numpy or jax. A client's vector is
flat, or a tree of leaves that `each` maps over; `finish` wants flat ones.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import iadd
from typing import Any, NamedTuple

import numpy as np

from amsfl.combine.chain import weighed as combine_rows
from amsfl.core import Attack, Key, Parts, Reading, Total, Transmit, Upload, namespace
from amsfl.core.records import Array, Tree
from amsfl.methods import Federation, Method, Number, Vector
from amsfl.methods.base import average, join

Each = Callable[..., Vector]  # each(f, *vectors): an elementwise f of vectors


def flat(function: Callable[..., Vector], *vectors: Vector) -> Vector:
    """An elementwise function of flat vectors."""
    return function(*vectors)


class LocalState(NamedTuple):
    """A client in the middle of its round."""

    anchor: Vector
    server: Vector  # the method's server state as it was sent; empty where clients do not need it
    client: Vector  # the method's client state
    lr: Number
    x: Vector = None  # the local model
    loss: Number = 0.0  # of the first minibatch at the anchor
    grad: Vector = None  # and its gradient there
    last: Vector = None  # that minibatch's gradient after the last step, where a reading is taken
    optimizer: Tree = None  # what the client's optimizer remembers, where it has one; at the end flat
    held: tuple[Number, Number] | None = None  # loss and spread of held-back rows at the anchor


def begin(state: LocalState, optimizer: Any = None) -> LocalState:
    """A client before its first step: at the anchor."""
    if optimizer is not None:
        kept, at = state.optimizer, state.anchor
        state = state._replace(optimizer=optimizer.init(at) if kept is None else optimizer.restored(at, kept))
    return state._replace(x=state.anchor)


def recall(state: LocalState, optimizer: Any) -> LocalState:
    """What a client's optimizer kept in a vector, apart from the method's own of the client's state."""
    if optimizer is None or not optimizer.kept:
        return state
    at = state.client.shape[-1] - optimizer.vector(state.anchor).shape[-1]
    return state._replace(client=state.client[:at], optimizer=state.client[at:])


def local_step(
    method: Method, state: LocalState, grad: Vector, each: Each = flat, optimizer: Any = None
) -> LocalState:
    """x <- x - lr correct(grad); with an optimizer x <- x + lr update(correct(grad))."""
    lr = state.lr
    held = state.x, state.anchor, state.server, state.client

    if optimizer is not None:
        update, then = optimizer.update(each(method.correct, grad, *held), state.optimizer, state.x)
        return state._replace(x=each(lambda x, u: x + lr * u, state.x, update), optimizer=then)

    def moved(g: Vector, x: Vector, *others: Vector) -> Vector:
        return x - lr * method.correct(g, x, *others)

    return state._replace(x=each(moved, grad, *held))


def finish(method: Method, state: LocalState, steps: Number) -> tuple[Upload, Vector, Reading | None]:
    """What goes up, what the client remembers, and the reading where one was taken. Vectors are flat here."""
    upload, client = method.report(state.x, state.anchor, steps, state.lr, state.server, state.client)
    if method.client_optimizer is not None and method.client_optimizer.kept:
        client = join(client, state.optimizer)
    if state.last is None:
        return upload, client, None
    change, nothing = state.last - state.grad, state.loss * float("nan")
    of_gradients = (state.grad * state.grad).sum(), (state.grad * change).sum(), (change * change).sum()
    return upload, client, Reading(state.loss, *of_gradients, *(state.held or (nothing, nothing)))


Attackers = Vector | None  # which attack each client makes, from 1; 0: none
Weighed = dict[str, Vector]  # by link of the rule: how much each client counts after it; {} without a rule
Draw = Callable[[int], Vector]  # so many standard normal numbers


def sent_state(method: Method, server: Vector, anchor: Vector) -> Vector:
    """What clients receive of the server state: nothing, or the method's own without an optimizer's."""
    return method.own_state(server, anchor) if method.facts.vectors_down > 1 else server[:0]


def settle(
    federation: Federation,
    anchor: Vector,
    server: Vector,
    weights: Vector,
    steps: Vector,
    uploads: Iterable[Upload] = (),
    *,
    total: Upload | None = None,
    attackers: Attackers = None,
    private: tuple[Number, Draw] | None = None,
    age: Number = 0.0,
    history: Vector | None = None,
) -> tuple[Vector, Vector, Weighed, Vector | None]:
    """The next anchor and server state, how much a rule lets each upload count, and what it remembers.

    `weights` are the cohort's shares of all clients' data, `steps` what each did, `uploads` what it sent, in
    its order, `total` their sum where an engine has it; `attackers` are a simulation's, `private` is the
    largest share of all clients and the server's noise, `age` how often the server moved since this work
    began, on average, and `history` [n, ...] what the rule remembers of them.
    """
    method, weighed = federation.method, Weighed()
    if total is None and federation.private_clients is not None and private is not None:
        sent = forge(federation.attacks, stack_uploads(uploads, weights), weights, steps, attackers)
        total = federation.private_clients.apply(sent, weights, *private)
    elif total is None and federation.compares_uploads:
        stacked = stack_uploads(uploads, weights)
        total, weighed, history = combine_uploads(federation, stacked, weights, steps, attackers, history)
    elif total is None:
        total = sum_uploads(uploads, method.mix(weights, steps))
    return *method.aggregate(anchor, Total(*total, age), weights, steps, server), weighed, history


def weigh_by_age(method: Method, sent: Upload, worth: Number, anchor: Vector, began: Vector | None) -> Upload:
    """An upload times what its age leaves of it; `began` is the model it started from, if not this one."""
    if method.facts.stale == "model" and began is not None:
        delta = began + sent.delta - anchor
        sent = Upload(delta, sent.extra, (delta * delta).sum())
    return Upload(worth * sent.delta, worth * sent.extra, worth * worth * sent.delta_sq)


def combine_uploads(
    federation: Federation,
    uploads: Upload,
    weights: Vector,
    steps: Vector,
    attackers: Attackers = None,
    history: Vector | None = None,
) -> tuple[Upload, Weighed, Vector | None]:
    """What the rule makes of stacked uploads [n, ...], how much each counts after each link, and
    what the rule remembers of the clients.

    The rule sees every upload as it would enter a plain average, so that it and its weights are all it needs:
    upload_i mix_i / share_i, with shares that sum to 1 (FedNova's are mean steps, FedAvg's deltas); and how
    many mean steps of its client each is.
    """
    uploads = forge(federation.attacks, uploads, weights, steps, attackers)
    share = average(weights)
    scale = federation.method.mix(weights, steps) / share
    rows = Upload(*(part * scale.reshape(-1, *[1] * (part.ndim - 1)) for part in uploads))
    counts, weighed = share, Weighed()
    if federation.rule is not None:
        done = scale * steps
        rows, counts, weighed, history = combine_rows(federation.rule, rows, share, done, history)
    total = Upload(*((part * counts.reshape(-1, *[1] * (part.ndim - 1))).sum(0) for part in rows))
    return total, weighed, history


def forge(
    attacks: Sequence[Attack], uploads: Upload, weights: Vector, steps: Vector, attackers: Attackers
) -> Upload:
    """The uploads as they arrive where some clients attack: false mean steps, as many as were asked for."""
    if attackers is None:
        return uploads
    where = namespace(weights).where
    done = steps[:, None]

    def forged(part: Vector) -> Vector:
        if not part.size:
            return part
        honest = part / done
        for number, attack in enumerate(attacks, 1):
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
    """sum_i mix_i upload_i, always in the same order."""
    total: Upload | None = None
    for share, (delta, extra, square) in zip(mix, uploads, strict=True):
        scaled = Upload(share * delta, share * extra, share * square)
        total = scaled if total is None else Upload(*map(iadd, total, scaled))  # our own arrays: in place
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


FLOAT = 4  # bytes of a number as it travels, whatever precision a simulation works in


def encode(transmit: Transmit | None, key: Key, upload: Upload, memory: Array) -> tuple[Parts, Array]:
    """The arrays that leave the client, by name, and what it remembers of them."""
    parts = {"delta": upload.delta, "extra": upload.extra}
    return (parts, memory) if transmit is None else transmit.encode(key, parts, memory)


def decode(transmit: Transmit | None, parts: Parts) -> Upload:
    """What the server makes of them. ||delta||^2 it works out itself: that need not be believed."""
    whole = parts if transmit is None else transmit.decode(parts)
    return Upload(whole["delta"], whole["extra"], (whole["delta"] * whole["delta"]).sum())


def encode_and_decode(
    transmit: Transmit | None, key: Key, upload: Upload, memory: Array
) -> tuple[Upload, Array]:
    """Both ends at once, for engines."""
    if transmit is None:
        return upload, memory
    parts, memory = encode(transmit, key, upload, memory)
    return decode(transmit, parts), memory


def initial_client_state(federation: Federation, x: Array) -> tuple[Array, Array]:
    """A client's state at the start: the method's own, and what it remembers of transmissions."""
    upload, client = empty_upload(federation.method, x)
    if federation.method.client_optimizer is not None and federation.method.client_optimizer.kept:
        client = join(client, federation.method.client_optimizer.vector(x))
    if federation.transmit is None:
        return client, x[:0]
    return client, federation.transmit.init({"delta": upload.delta, "extra": upload.extra})


def empty_upload(method: Method, x: Array) -> tuple[Upload, Array]:
    """An upload of nothing as the server has it, for its shapes, and the client state it was made from."""
    server, client = method.init(x)
    upload, _ = method.report(x, x, 1, 1.0, sent_state(method, server, x), client)
    return Upload(0 * upload.delta, 0 * upload.extra, upload.delta_sq), client


def upload_bytes(method: Method, transmit: Transmit | None, dim: int) -> float:
    """Bytes that a client's vectors take on the way up: what they weigh follows from their shapes."""
    if transmit is None:
        return float(FLOAT * dim * method.facts.vectors_up)
    return float(sum(part_bytes(part) for part in empty_parts(method, transmit, dim).values()))


def empty_parts(method: Method, transmit: Transmit, dim: int) -> Parts:
    """The arrays that a client of this method sends, all of them zero: their names, shapes and types."""
    nothing, _ = empty_upload(method, np.zeros(dim, np.float32))
    memory = transmit.init({"delta": nothing.delta, "extra": nothing.extra})
    key = np.zeros((), np.uint32), np.zeros((), np.uint32)
    with np.errstate(all="ignore"):
        return encode(transmit, key, nothing, memory)[0]


def part_bytes(part: Array) -> int:
    """Bytes of one array."""
    kind = np.dtype(part.dtype)
    return int(part.size * (min(FLOAT, kind.itemsize) if kind.kind == "f" else kind.itemsize))
