"""Engines: the same round, one client at a time (loop) or all at once (jax)."""

from amsfl.core import UserError, nearest
from amsfl.engines import devices
from amsfl.engines.contract import (
    Engine,
    JobResults,
    Jobs,
    JobStarts,
    Orders,
    Outcome,
    State,
)
from amsfl.engines.scores import Errors, Scores, metrics
from amsfl.engines.task import Task
from amsfl.methods import Method

ENGINES = ("jax", "loop")

devices.configure()  # here, since building a model or a task already starts jax's backend


def make(
    name: str,
    task: Task,
    method: Method,
    batch: int,
    readings: bool = False,
    *,
    cohort: int | None = None,
    together: int | None = None,
    parts: int = 1,
) -> Engine:
    """An engine by name; the rest is what its memory and packing are planned by.

    `cohort`: clients a round (None: all); `together`: jobs of a trial that are computed at once in
    asynchronous rounds; `parts`: devices that share a model.
    """
    if name == "jax":
        from amsfl.engines.jax_engine import JaxEngine

        mesh = devices.mesh(parts=parts)
        return JaxEngine(task, method, batch, readings, mesh=mesh, cohort=cohort, together=together)
    if name == "loop":
        if parts > 1:
            raise UserError(
                "The loop engine has one device, so no model can be shared; leave --shard-model out, or use "
                "--engine jax."
            )
        from amsfl.engines.loop_engine import LoopEngine

        return LoopEngine(task, method, batch, readings)
    raise UserError(f"Unknown engine {name!r}{nearest(name, ENGINES)}.")


__all__ = [
    "ENGINES",
    "Engine",
    "Errors",
    "JobResults",
    "JobStarts",
    "Jobs",
    "Orders",
    "Outcome",
    "Scores",
    "State",
    "Task",
    "make",
    "metrics",
]
