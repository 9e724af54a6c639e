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
    Scores,
    State,
    metrics,
)
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
    cohort: int | None = None,
    together: int | None = None,
    parts: int = 1,
) -> Engine:
    """An engine by name; `cohort`, where not all clients take part, is what its memory is judged by.

    `together` is how many jobs of a trial are usually computed at once where rounds end before all are in,
    `parts` how many devices share a model.
    """
    if name == "jax":
        from amsfl.engines.jax_engine import JaxEngine

        mesh = devices.mesh(parts=parts)
        return JaxEngine(task, method, batch, readings, mesh=mesh, cohort=cohort, together=together)
    if name == "loop":
        if parts > 1:
            raise UserError(
                "The loop engine has one device, so nobody shares a model; leave --shard-model out, or use "
                "--engine jax."
            )
        from amsfl.engines.loop_engine import LoopEngine

        return LoopEngine(task, method, batch, readings)
    raise UserError(f"Unknown engine {name!r}{nearest(name, ENGINES)}.")


__all__ = [
    "ENGINES",
    "Engine",
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
