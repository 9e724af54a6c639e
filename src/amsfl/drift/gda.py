"""The gradient-difference reading itself: two gradients of one minibatch, as a few scalars.

Operators only, so that simulated and real clients (numpy, jax, torch) take it by the same lines.
"""

from amsfl.core import Reading
from amsfl.core.records import Array, Number


def take_reading(loss: Number, before: Array, after: Array) -> Reading:
    """What a client says of its minibatch's loss and gradient at the anchor and gradient after its steps."""
    change, nothing = after - before, loss * float("nan")
    return Reading(
        loss, (before * before).sum(), (before * change).sum(), (change * change).sum(), nothing, nothing
    )


def measured(reading: Reading | None, delta: Array, direction: Array) -> Reading:
    """The reading with what the server sees of an upload; of a client that sends none, that alone."""
    square, along = (delta * delta).sum(), (delta * direction).sum()
    if reading is None:
        nothing = 0 * square
        reading = Reading(nothing, nothing, nothing, nothing, *(nothing * float("nan"),) * 2)
    return reading._replace(delta_sq=square, delta_dir=along)
