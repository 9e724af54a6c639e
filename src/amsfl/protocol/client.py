"""What a client does between receiving a model and sending its work.

    state = begin(method, LocalState(anchor, server, client, lr))
    state = first_step(method, state, loss, grad)       the first local step
    state = local_step(method, state, loss, grad)       each further one
    state = look_back(state, grad)                      for a reading: the first minibatch once more
    upload, client, reading = finish(method, state, steps)

A vector is flat, or leaves that `layout` maps over; `finish` wants flat ones.
"""

from collections.abc import Callable
from typing import NamedTuple

from amsfl.core import Reading, Upload
from amsfl.methods import Method, Number, Vector


class VectorLayout(NamedTuple):
    """A vector's operations: `each(f, *vectors)` applies an elementwise f."""

    each: Callable[..., Vector]


FLAT = VectorLayout(lambda f, *vectors: f(*vectors))


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
    velocity: Vector = None  # of methods with momentum at clients
    held: tuple[Number, Number] | None = None  # loss and spread of held-back rows at the anchor


def begin(method: Method, state: LocalState, layout: VectorLayout = FLAT) -> LocalState:
    """A client before its first step: at the anchor."""
    if method.arithmetic.momentum is not None:
        state = state._replace(velocity=layout.each(lambda x: 0 * x, state.anchor))
    return state._replace(x=state.anchor)


def first_step(
    method: Method, state: LocalState, loss: Number, grad: Vector, layout: VectorLayout = FLAT
) -> LocalState:
    """The first step: its minibatch is the reading's."""
    return local_step(method, state._replace(loss=loss, grad=grad), grad, layout)


def local_step(method: Method, state: LocalState, grad: Vector, layout: VectorLayout = FLAT) -> LocalState:
    """x <- x - lr correct(grad); with momentum, along the velocity in place of the gradient."""
    lr, momentum = state.lr, method.arithmetic.momentum
    held = state.x, state.anchor, state.server, state.client

    if momentum is not None:

        def gathered(v: Vector, g: Vector, *others: Vector) -> Vector:
            return momentum * v + method.arithmetic.correct(g, *others)

        velocity = layout.each(gathered, state.velocity, grad, *held)
        x = layout.each(lambda x, v: x - lr * v, state.x, velocity)
        return state._replace(x=x, velocity=velocity)

    def moved(g: Vector, x: Vector, *others: Vector) -> Vector:
        return x - lr * method.arithmetic.correct(g, x, *others)

    return state._replace(x=layout.each(moved, grad, *held))


def look_back(state: LocalState, grad: Vector) -> LocalState:
    """The reading's second gradient: of the first minibatch, where the client has come to."""
    return state._replace(last=grad)


def finish(method: Method, state: LocalState, steps: Number) -> tuple[Upload, Vector, Reading | None]:
    """What goes up, what the client remembers, and the reading where one was taken. Vectors are flat here."""
    upload, client = method.arithmetic.report(
        state.x, state.anchor, steps, state.lr, state.server, state.client
    )
    if state.last is None or method.private_rows:
        return upload, client, None
    change, nothing = state.last - state.grad, state.loss * float("nan")
    of_gradients = (state.grad * state.grad).sum(), (state.grad * change).sum(), (change * change).sum()
    return upload, client, Reading(state.loss, *of_gradients, *(state.held or (nothing, nothing)))
