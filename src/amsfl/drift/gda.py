"""The gradient-difference reading itself: two gradients of one minibatch, as nine scalars.

Operators only, so that simulated and real clients (numpy, jax, torch) take it by the same lines.
"""

from typing import Any

from amsfl.core import Reading


def take_reading(loss: Any, before: Any, after: Any, delta: Any, direction: Any) -> Reading:
    """From the minibatch's loss and gradient at the anchor, its gradient after the local steps, and delta.

    `direction` is the last global step; empty where none was sent, and then nothing lies along it.
    """
    change = after - before

    def along(part: Any) -> Any:
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
    )


def reading_of_upload(delta: Any, direction: Any) -> Reading:
    """What the server can tell by itself from an upload, where a client's gradients are its own affair."""
    nothing = 0 * (delta * delta).sum()
    along = (delta * direction).sum() if len(direction) else nothing
    none = Reading(*(nothing for _ in Reading._fields))  # type: ignore[call-arg]
    return none._replace(delta_sq=(delta * delta).sum(), delta_dir=along)
