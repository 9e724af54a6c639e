"""Private steps at a real client: as engines/private_gradients.py, with the system's own randomness.

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

A trainer that can do that has two functions more:

    apart()                  a UserError where a row has no gradient of its own
    clipped(x, places, clip) the sum of those rows' gradients at x, each cut to the norm `clip`
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from amsfl import sampling
from amsfl.core import UserError
from amsfl.flower.client.local_round import Trainer, has_own_optimizer
from amsfl.flower.messages import Order
from amsfl.privacy import system_random


def gradient(trainer: Any, order: Order, x: Any) -> Any:
    """One private gradient at x; whoever is in its minibatch is nobody else's business."""
    places = system_random.chosen(int(sampling.chance(order.batch, trainer.rows)), trainer.rows)
    total = trainer.clipped(x, places, order.clip)
    noise = trainer.from_numpy((order.noise * order.clip * system_random.normal(len(x))).astype(np.float32))
    return (total + noise) / min(order.batch, trainer.rows)


def check(trainer: Trainer) -> None:
    """Whether this client can keep its rows private; a UserError says why not."""
    if has_own_optimizer(trainer):
        raise UserError(
            "This client moves by an optimizer or a training loop of its own, which sees rows' gradients as "
            "they are: under privacy use torch_client without an optimizer, or jax_client."
        )
    if not hasattr(trainer, "clipped"):
        raise UserError(
            f"A {type(trainer).__name__} has no gradients row by row, and each must be cut by itself: under "
            "privacy use torch_client or jax_client, or give it apart() and clipped()."
        )
    trainer.apart()  # type: ignore[attr-defined]  # whoever has clipped() has it


def why_open(trainer: Trainer) -> str:
    """The same as a sentence; "" where it can."""
    try:
        check(trainer)
    except UserError as error:
        return str(error)
    return ""


@contextmanager
def silent(private: bool) -> Iterator[None]:
    """Errors travel to the server with what they say; under privacy that stays here: it may be of rows."""
    try:
        yield
    except Exception:
        if not private:
            raise
        traceback.print_exc()
        raise UserError(
            "This site's work failed, and why may tell of its rows: its own log says it."
        ) from None
