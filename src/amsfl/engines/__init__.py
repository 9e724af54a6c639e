"""Engines: the same local rounds, one client at a time (loop) or many at once (jax)."""

from amsfl.core import UserError, nearest
from amsfl.engines import devices
from amsfl.engines.contract import (
    MOST,
    Ahead,
    Engine,
    Models,
    Results,
    Vectors,
    Work,
    number_scores,
    table_scores,
)
from amsfl.engines.task import Task
from amsfl.methods import Federation

ENGINES = ("jax", "loop")
# of numpy on one core: a client step's calls, arithmetic (flops) a second, and the seconds that jax takes to
# compile a method's programs and this machine's start of it
STEP, FLOPS, COMPILING = 3e-4, 5e9, 4.0

devices.configure()  # here: no module of this package imports jax before


def make(
    name: str,
    task: Task,
    federation: Federation,
    batch: int,
    readings: bool = False,
    cohort: int | None = None,
) -> Engine:
    """An engine by name; `cohort`: clients a round, by which waves are planned (None: all)."""
    if name == "jax":
        from amsfl.engines.jax_engine import JaxEngine

        return JaxEngine(task, federation, batch, readings, cohort)
    if name == "loop":
        from amsfl.engines.loop_engine import LoopEngine

        return LoopEngine(task, federation, batch, readings)
    raise UserError(f"Unknown engine {name!r}{nearest(name, ENGINES)}.")


def by_size(task: Task, federation: Federation, steps: float, scored: float, batch: int) -> str:
    """The engine of a run that names none: loop, where numpy trains sooner than jax compiles.

    `steps`: of all clients, at most; `scored`: rows of all evaluations. Neither the machine's pace nor what
    its caches hold has a say, so the same settings always take the same engine; a GPU's are always jax.
    """
    from amsfl.engines.loop_engine import takes

    forward = 2 * task.dim
    seconds = steps * (STEP + 3 * forward * batch / FLOPS) + scored * forward / FLOPS
    return "loop" if seconds <= COMPILING and takes(task, federation) and devices.on_cpu() else "jax"
