"""The gradient-difference reading itself: two gradients of one minibatch, as nine scalars.

Operators only, so that simulated and real clients (numpy, jax, torch) take it by the same lines.
"""

from amsfl.core import Reading
from amsfl.core.records import Array, Number


def take_reading(loss: Number, before: Array, after: Array, delta: Array, direction: Array) -> Reading:
    """From the minibatch's loss and gradient at the anchor, its gradient after the local steps, and delta.

    `direction` is the last global step; empty where none was sent, and then nothing lies along it.
    """
    change = after - before

    def along(part: Array) -> Array:
        return (part * direction).sum() if len(direction) else 0.0

    return Reading(
        loss,
        (before * before).sum(),
        (change * change).sum(),
        (delta * delta).sum(),
        (before * change).sum(),
        (before * delta).sum(),
        along(before),
        along(change),
        along(delta),
        loss,
        0 * loss + 1,
        0 * loss,
        0 * loss,
        0 * loss,
    )


def reading_of_upload(delta: Array, direction: Array) -> Reading:
    """What the server can tell by itself from an upload, where a client's gradients are its own affair."""
    nothing = 0 * (delta * delta).sum()
    along = (delta * direction).sum() if len(direction) else nothing
    none = Reading(*(nothing for _ in Reading._fields))  # type: ignore[call-arg]
    return none._replace(delta_sq=(delta * delta).sum(), delta_dir=along)
