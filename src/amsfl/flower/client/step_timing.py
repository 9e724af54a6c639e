"""How long one step takes, by a step that leads nowhere: so that the first plan need not guess."""

from collections.abc import Callable
from math import inf
from typing import Any

from flwr.app import ConfigRecord, Context

from amsfl import methods
from amsfl.core import RowPrivacy, UserError
from amsfl.flower.client import private_steps
from amsfl.flower.client.local_round import Trainer, has_own_optimizer
from amsfl.flower.client.step_loop import LocalTask, Slowdown
from amsfl.flower.messages import GlobalModel, Order, scalars

SPEED = "amsfl-speed"  # in Flower's context
LONG = 5.0  # seconds; after a first step of that length, in which some compile, there is no second


def step_seconds(
    trainer: Trainer, seed: int, batch: int, pace: Slowdown, private: RowPrivacy | None = None
) -> float:
    """Seconds; 0 where nobody knows: the client moves by an optimizer of its own, or the step failed.

    Then the first order fails as well, and the server hears why. With `private` it is a private step.
    """
    if has_own_optimizer(trainer):
        return 0.0
    order = Order("probe", 0, -1, 0, 2, inf, 1.0, True, batch, seed, "fedavg", {}, "", False)
    task = LocalTask(order, pace)

    def look(x: Any, step: int) -> Any:
        if private is None:
            return trainer.gradient(x, step)
        return private_steps.gradient(trainer, private, 0.0, batch, x)

    try:
        x, buffers = trainer.start(seed)
        trainer.begin(
            order,
            GlobalModel(x, x[:0], x[:0], buffers),
            methods.make("fedavg")._replace(private_rows=private),
        )
        task.look(look, trainer.from_numpy(x), 0)
        if task.timed[0] < LONG:
            task.look(look, trainer.from_numpy(x), 1)
    except UserError:  # a mistake that every order would meet: better said now than after minutes
        raise
    except Exception:  # whatever users' code raises
        return 0.0
    return task.step_seconds


def coarse_once(context: Context, measure: Callable[[], float]) -> float:
    """Under privacy: rounded, and one measurement a Flower run. Many would tell more than one does."""
    if SPEED not in context.state:
        seconds = measure()
        context.state[SPEED] = ConfigRecord({"seconds": private_steps.coarse(seconds) if seconds else 0.0})
    return float(scalars(context.state, SPEED)["seconds"])
