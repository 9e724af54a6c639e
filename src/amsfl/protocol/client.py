"""What a client does between receiving a model and sending its work.

    state = begin(method, receive(method, LocalState(anchor, server, client, lr, number)))
    state = first_step(method, state, loss, grad)       the first local step
    state = local_step(method, state, loss, grad)       each further one
    state = close(method, state, loss, grad)            for a reading: the first minibatch once more
    upload, client, reading = finish(method, state, steps, direction)

Where no learning rate is known yet, `lr` is a part of what the client finds, and the first step is two looks:

    state = trial_step(method, state, loss, grad)       in place of `first_step`; then the same rows again
    state = open_rate(method, state, grad)              the rate, and the first step by it

A vector is flat, or leaves that `layout` maps over; `receive` and `finish` want flat ones.
"""

from collections.abc import Callable
from typing import NamedTuple

from amsfl.core import Reading, Upload
from amsfl.drift import reading_of_upload, take_reading
from amsfl.methods import Method, Number, Vector
from amsfl.methods.operators import join, least, where


class VectorLayout(NamedTuple):
    """A vector's operations: `each(f, *vectors)` applies an elementwise f, `dot` is the inner product."""

    each: Callable[..., Vector]
    dot: Callable[[Vector, Vector], Number]

    def square(self, vector: Vector) -> Number:
        """The squared norm."""
        return self.dot(vector, vector)


FLAT = VectorLayout(lambda f, *vectors: f(*vectors), lambda one, other: (one * other).sum())


class LastStep(NamedTuple):
    """The last step of a method whose steps look back."""

    grad: Vector  # its gradient
    moved: Number  # its squared way; 0 before any
    length: Number  # its length, lr before any
    growth: Number  # that over the one before it


class LocalState(NamedTuple):
    """A client in the middle of its round."""

    anchor: Vector
    server: Vector  # the method's server state as it was sent; empty where clients do not need it
    client: Vector  # the method's client state
    lr: Number  # the longest step; where none is known, the part of the client's own that it takes
    number: Number = 0  # the server's moves so far
    x: Vector = None  # the local model
    loss: Number = 0.0  # of the first minibatch at the anchor
    grad: Vector = None  # and its gradient there
    end: Vector = None  # the model after the last step, where a reading is taken
    last: Vector = None  # the first minibatch's gradient there
    past: LastStep | Vector | None = None  # of methods with a `pace`; with momentum, the velocity; with a
    # `second` vector, the lengths of all steps so far
    cut: Number = 1.0  # of the method's longest step (`stride`), how many times; lr at most
    held: tuple[Number, Number] | None = None  # loss and spread of held-back rows at the anchor
    correction: Number = 1.0  # of the drift that `server` and `client` say, with a `second` vector: 0 or 1
    seen: Vector = None  # what a client remembers for its reading: its last first gradient, that round + 1


def receive(method: Method, state: LocalState) -> LocalState:
    """A client with what it keeps for its steps and what it keeps for its reading apart.

    Its drift is corrected where the server sent the mean to correct it by, and only if its own part of that
    mean is of the round before.
    """
    if not method.arithmetic.keeps_gradient:
        return state
    size = len(state.anchor)
    own, seen = state.client[: -(size + 1)], state.client[-(size + 1) :]
    state = state._replace(client=own, seen=seen)
    if method.arithmetic.second is None:
        return state
    server = state.server if len(state.server) else 0 * state.anchor
    here = (seen[-1:] == state.number) & (len(state.server) > 0)
    server, own = (where(here, state.correction * part, 0 * part) for part in (server, own))
    return state._replace(server=server, client=own)


def begin(method: Method, state: LocalState, layout: VectorLayout = FLAT) -> LocalState:
    """A client before its first step: at the anchor."""
    if method.arithmetic.pace is not None:
        lr, zeros = state.lr, layout.each(lambda x: 0 * x, state.anchor)
        state = state._replace(past=LastStep(zeros, 0 * lr, lr, 0 * lr + 1))
    elif method.arithmetic.momentum is not None:
        state = state._replace(past=layout.each(lambda x: 0 * x, state.anchor))
    elif method.arithmetic.second is not None:
        state = state._replace(past=0 * state.lr)
    return state._replace(x=state.anchor)


def first_step(
    method: Method, state: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """The first step: its minibatch is the reading's."""
    return local_step(method, state._replace(loss=loss, grad=grad), loss, grad, layout)


def trial_step(
    method: Method, state: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """Where no learning rate is known: a short step along the first gradient, to look at it from there."""
    opening = method.arithmetic.opening
    assert opening is not None
    length = opening.trial(loss, layout.square(grad))
    x = layout.each(lambda x, g: x - length * g, state.anchor, grad)
    return state._replace(loss=loss, grad=grad, x=x)


def open_rate(method: Method, state: LocalState, grad: Vector, layout: VectorLayout = FLAT) -> LocalState:
    """The client's longest step, from the first minibatch's gradient after `trial_step`; then its step."""
    opening = method.arithmetic.opening
    assert opening is not None
    square = layout.square(state.grad)
    turned = layout.dot(layout.each(lambda before, after: before - after, state.grad, grad), state.grad)
    lr = state.lr * opening.rate(state.loss, square, turned, opening.trial(state.loss, square))
    return local_step(method, state._replace(lr=lr, x=state.anchor), state.loss, state.grad, layout)


def local_step(
    method: Method, state: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """x <- x - length correct(grad), length at most lr, or as the method's `pace` says.

    With momentum, along the velocity in place of the gradient.
    """
    lr, past, momentum = state.lr, state.past, method.arithmetic.momentum
    if method.arithmetic.stride is not None:
        lr = least(state.cut * method.arithmetic.stride(loss, layout.square(grad)), lr)
    if method.arithmetic.pace is not None and isinstance(past, LastStep):
        change = layout.square(layout.each(lambda now, before: now - before, grad, past.grad))
        lr, growth = method.arithmetic.pace(past.length, past.growth, past.moved, change)

    if momentum is not None:

        def gathered(v: Vector, g: Vector, x: Vector, *others: Vector) -> Vector:
            return momentum * v + method.arithmetic.correct(g, x, *others)

        velocity = layout.each(gathered, past, grad, state.x, state.anchor, state.server, state.client)
        x = layout.each(lambda x, v: x - lr * v, state.x, velocity)
        return state._replace(x=x, past=velocity)

    def moved(x: Vector, g: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return x - lr * method.arithmetic.correct(g, x, anchor, server, client)

    x = layout.each(moved, state.x, grad, state.anchor, state.server, state.client)
    if method.arithmetic.pace is not None:
        way = layout.square(layout.each(lambda now, before: now - before, x, state.x))
        state = state._replace(past=LastStep(grad, way, lr, growth))
    elif method.arithmetic.second is not None:
        state = state._replace(past=past + lr)
    return state._replace(x=x)


def close(
    method: Method, state: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """The reading's second gradient; for methods that close with it, one more step along it."""
    closed = local_step(method, state, loss, grad, layout) if method.arithmetic.closing else state
    return closed._replace(end=state.x, last=grad)


def finish(
    method: Method, state: LocalState, steps: Number, direction: Vector
) -> tuple[Upload, Vector, Reading | None]:
    """What goes up, what the client remembers, and the reading where one was taken. Vectors are flat here.

    `direction` is the last global step; empty where none was sent.
    """
    second = method.arithmetic.second is not None
    lr = state.past / steps if second else state.lr
    upload, client = method.arithmetic.report(state.x, state.anchor, steps, lr, state.server, state.client)
    if method.private_rows:
        return upload, client, reading_of_upload(upload.delta, direction)
    if state.last is None:
        return upload, client, None
    held_loss, spread = state.held or (state.loss, 0 * state.loss + 1)
    taken = take_reading(state.loss, state.grad, state.last, state.end - state.anchor, direction)._replace(
        held_loss=held_loss, spread=spread, opening=state.lr
    )
    if second:
        taken = taken._replace(length=state.past)
    if not method.arithmetic.keeps_gradient:
        return upload, client, taken
    # memory of the round before says something of this one's direction only if that was the client's, too
    here = (state.seen[-1] == state.number) & (state.number > 0)
    begin = -(state.seen[:-1] * direction).sum() if len(direction) else 0.0 * state.loss
    taken = taken._replace(way_begin=where(here, begin, begin * float("nan")))
    # what is not finite is not remembered
    finite = 0 * client.sum() == 0
    number = 0 * state.grad[:1] + finite * (state.number + 1)
    return upload, join(where(finite, client, 0 * client), state.grad, number), taken
