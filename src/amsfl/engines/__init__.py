"""Engines: the same local rounds, one client at a time (loop) or many at once (jax)."""

from amsfl.core import UserError, nearest
from amsfl.engines import devices
from amsfl.engines.contract import Engine, Models, Results, Work
from amsfl.engines.scores import Errors, Scores, metrics
from amsfl.engines.task import Task
from amsfl.methods import Method

ENGINES = ("jax", "loop")

devices.configure()  # here, since building a model or a task already starts jax's backend


def make(
    name: str, task: Task, method: Method, batch: int, readings: bool = False, cohort: int | None = None
) -> Engine:
    """An engine by name; `cohort`: clients a round, by which waves are planned (None: all)."""
    if name == "jax":
        from amsfl.engines.jax_engine import JaxEngine

        return JaxEngine(task, method, batch, readings, cohort)
    if name == "loop":
        from amsfl.engines.loop_engine import LoopEngine

        return LoopEngine(task, method, batch, readings)
    raise UserError(f"Unknown engine {name!r}{nearest(name, ENGINES)}.")


__all__ = [
    "ENGINES",
    "Engine",
    "Errors",
    "Models",
    "Results",
    "Scores",
    "Task",
    "Work",
    "make",
    "metrics",
]
