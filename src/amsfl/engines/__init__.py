"""Engines: the same round, one client at a time (loop) or all at once (jax)."""

from amsfl.core import UserError, nearest
from amsfl.engines import devices
from amsfl.engines.base import Engine, Orders, Outcome, Scores, State, metrics
from amsfl.engines.task import Task
from amsfl.methods import Method

ENGINES = ("jax", "loop")

devices.configure()  # here, since building a model or a task already starts jax's backend


def make(
    name: str, task: Task, method: Method, batch: int, readings: bool = False, cohort: int | None = None
) -> Engine:
    """An engine by name; `cohort`, where not all clients take part, is what its memory is judged by."""
    if name == "jax":
        from amsfl.engines.lanes import Lanes

        return Lanes(task, method, batch, readings, cohort=cohort)
    if name == "loop":
        from amsfl.engines.loop import Loop

        return Loop(task, method, batch, readings)
    raise UserError(f"Unknown engine {name!r}{nearest(name, ENGINES)}.")


__all__ = ["ENGINES", "Engine", "Orders", "Outcome", "Scores", "State", "Task", "make", "metrics"]
