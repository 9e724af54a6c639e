"""What a client does between receiving a model and sending its work.

    state = begin(method, LocalState(anchor, server, client, lr, lr_known))
    state = first_step(method, state, loss, grad)       the first local step
    state = local_step(method, state, loss, grad)       each further one
    state = close(method, state, loss, grad)            for a reading: the first minibatch once more
    upload, client, reading = finish(method, state, steps, direction)

A vector is flat, or leaves that `layout` maps over; `finish` wants flat ones.
"""

from collections.abc import Callable
from typing import NamedTuple

from amsfl.core import Reading, Upload
from amsfl.drift import reading_of_upload, take_reading
from amsfl.methods import Method, Number, Vector
from amsfl.methods.operators import least


class VectorLayout(NamedTuple):
    """A vector's operations: `each(f, *vectors)` applies an elementwise f, `square` is the squared norm."""

    each: Callable[..., Vector]
    square: Callable[[Vector], Number]


FLAT = VectorLayout(lambda f, *vectors: f(*vectors), lambda vector: (vector * vector).sum())


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
    lr: Number  # the longest step
    lr_known: Number = 1  # 0 while there is none: then `lr` is a part of the first step's own length
    x: Vector = None  # the local model
    loss: Number = 0.0  # of the first minibatch at the anchor
    grad: Vector = None  # and its gradient there
    end: Vector = None  # the model after the last step, where a reading is taken
    last: Vector = None  # the first minibatch's gradient there
    past: LastStep | None = None  # of methods with a `pace`


def begin(method: Method, state: LocalState, layout: VectorLayout = FLAT) -> LocalState:
    """A client before its first step: at the anchor."""
    if method.arithmetic.pace is not None:
        lr, zeros = state.lr, layout.each(lambda x: 0 * x, state.anchor)
        state = state._replace(past=LastStep(zeros, 0 * lr, lr, 0 * lr + 1))
    return state._replace(x=state.anchor)


def first_step(
    method: Method, state: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """The first step: its minibatch is the reading's; where no lr is known, `lr` times its length is the
    longest."""
    if method.arithmetic.stride is not None:
        own = method.arithmetic.stride(loss, layout.square(grad))
        state = state._replace(lr=state.lr * (state.lr_known + own * (1 - state.lr_known)))
    return local_step(method, state._replace(loss=loss, grad=grad), loss, grad, layout)


def local_step(
    method: Method, state: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """x <- x - length correct(grad), length at most lr, or as the method's `pace` says."""
    lr, past = state.lr, state.past
    if method.arithmetic.stride is not None:
        lr = least(method.arithmetic.stride(loss, layout.square(grad)), lr)
    if method.arithmetic.pace is not None and past is not None:
        change = layout.square(layout.each(lambda now, before: now - before, grad, past.grad))
        lr, growth = method.arithmetic.pace(past.length, past.growth, past.moved, change)

    def moved(x: Vector, g: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return x - lr * method.arithmetic.correct(g, x, anchor, server, client)

    x = layout.each(moved, state.x, grad, state.anchor, state.server, state.client)
    if method.arithmetic.pace is not None:
        way = layout.square(layout.each(lambda now, before: now - before, x, state.x))
        state = state._replace(past=LastStep(grad, way, lr, growth))
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
    upload, client = method.arithmetic.report(
        state.x, state.anchor, steps, state.lr, state.server, state.client
    )
    if method.private_rows:
        return upload, client, reading_of_upload(upload.delta, direction)
    if state.last is None:
        return upload, client, None
    taken = take_reading(state.loss, state.grad, state.last, state.end - state.anchor, direction)
    return upload, client, taken
