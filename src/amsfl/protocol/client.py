"""What a client does between receiving a model and sending its work.

    carry = begin(method, anchor, server, client, lr, known)
    carry = first(method, carry, loss, grad)            the first local step
    carry = step(method, carry, loss, grad)             each further one
    carry = close(method, carry, loss, grad)            for a reading: the first minibatch once more
    upload, client, reading = finish(method, carry, steps, direction)

A vector is flat, or leaves that `layout` maps over; `finish` wants flat ones.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amsfl.core import Reading, Upload
from amsfl.drift import reading_of_upload, take_reading
from amsfl.methods import Method
from amsfl.methods.operators import least

Vector = Any
Number = Any


class VectorLayout(NamedTuple):
    """How a vector lies: `each(f, *vectors)` applies an elementwise f, `square` is the squared norm."""

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
    x: Vector  # the local model
    lr: Number  # the longest step
    known: Number  # 1, or 0 while nobody knows one: then `lr` is a part of the first step's own length
    loss: Number = 0.0  # of the first minibatch at the anchor
    grad: Vector = None  # and its gradient there
    end: Vector = None  # the model after the last step, where a reading is taken
    last: Vector = None  # the first minibatch's gradient there
    past: LastStep | None = None  # of methods with a `pace`


def begin(
    method: Method,
    anchor: Vector,
    server: Vector,
    client: Vector,
    lr: Number,
    known: Number = 1,
    layout: VectorLayout = FLAT,
) -> LocalState:
    carry = LocalState(anchor, server, client, anchor, lr, known)
    if method.arithmetic.pace is None:
        return carry
    return carry._replace(past=LastStep(layout.each(lambda x: 0 * x, anchor), 0 * lr, lr, 0 * lr + 1))


def first_step(
    method: Method, carry: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """The first step: its minibatch is the reading's; where no lr is known, `lr` times its length is the
    longest."""
    if method.arithmetic.stride is not None:
        own = method.arithmetic.stride(loss, layout.square(grad))
        carry = carry._replace(lr=carry.lr * (carry.known + own * (1 - carry.known)))
    return local_step(method, carry._replace(loss=loss, grad=grad), loss, grad, layout)


def local_step(
    method: Method, carry: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """x <- x - length correct(grad), length at most lr, or as the method's `pace` says."""
    lr, past = carry.lr, carry.past
    if method.arithmetic.stride is not None:
        lr = least(method.arithmetic.stride(loss, layout.square(grad)), lr)
    if method.arithmetic.pace is not None and past is not None:
        change = layout.square(layout.each(lambda now, before: now - before, grad, past.grad))
        lr, growth = method.arithmetic.pace(past.length, past.growth, past.moved, change)

    def moved(x: Vector, g: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return x - lr * method.arithmetic.correct(g, x, anchor, server, client)

    x = layout.each(moved, carry.x, grad, carry.anchor, carry.server, carry.client)
    if method.arithmetic.pace is not None:
        way = layout.square(layout.each(lambda now, before: now - before, x, carry.x))
        carry = carry._replace(past=LastStep(grad, way, lr, growth))
    return carry._replace(x=x)


def close(
    method: Method, carry: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """The reading's second gradient; for methods that close with it, one more step along it."""
    closed = local_step(method, carry, loss, grad, layout) if method.arithmetic.closing else carry
    return closed._replace(end=carry.x, last=grad)


def finish(
    method: Method, carry: LocalState, steps: Number, direction: Vector
) -> tuple[Upload, Vector, Reading | None]:
    """What goes up, what the client remembers, and the reading where one was taken. Vectors are flat here.

    `direction` is the last global step; empty where none was sent.
    """
    upload, client = method.arithmetic.report(
        carry.x, carry.anchor, steps, carry.lr, carry.server, carry.client
    )
    if method.private_rows:
        return upload, client, reading_of_upload(upload.delta, direction)
    if carry.last is None:
        return upload, client, None
    taken = take_reading(carry.loss, carry.grad, carry.last, carry.end - carry.anchor, direction)
    return upload, client, taken
