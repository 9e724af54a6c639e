"""The jax engine: all clients of all trials in one compiled program, sharded over the devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from amsfl.core import Reading
from amsfl.engines import client, devices, programs, sampling
from amsfl.engines.base import Orders, Outcome, Scores, State
from amsfl.engines.evaluate import evaluator
from amsfl.engines.memory import check_fits, copies
from amsfl.engines.programs import Fixed
from amsfl.engines.task import Task
from amsfl.engines.waves import Queue, pack
from amsfl.methods import Method


class Lanes:
    """Engine (see base.Engine): `lanes` jobs in lockstep on each of `mesh`'s devices, `workers` times over.

    `mesh` may span processes (jax.distributed): all of them make the same calls with the same values, and
    all hold the same results. `cohort`, the clients a round, sharpens the check that client state fits.
    """

    def __init__(
        self,
        task: Task,
        method: Method,
        batch: int,
        readings: bool = False,
        lanes: int | None = None,
        mesh: Mesh | None = None,
        cohort: int | None = None,
        workers: int | None = None,
    ):
        self.task, self.method = task, method
        self.mesh = mesh or devices.mesh()
        self.lanes = lanes or devices.default_lanes()
        self.workers = workers or devices.workers(self.mesh)
        check_fits(task, method, copies(self.mesh), cohort, self.workers)
        shards = task.shards
        # replicated from the start: what arrives on one device would be copied, and compiled for, anew
        fixed = Fixed(task.x, task.y, *shards, sampling.words(task.seeds))
        self.fixed = devices.put(fixed, self.mesh, P())
        work = client.program(task, method, batch, readings)
        kept = {deltas: programs.Kept(readings, deltas) for deltas in (False, True)}
        self._work = {key: programs.work(self.mesh, method, work, kept[key]) for key in kept}
        self._abreast = {key: devices.abreast(program) for key, program in self._work.items()}
        self._settle = programs.settle(self.mesh, method)
        self._evaluate = evaluator(task, self.mesh, self.workers)
        self._packed: tuple[Any, list[Queue]] = (None, [])

    def start(self) -> State:
        anchor = self.task.start()
        clients = self.task.shards.size.shape[1]

        @jax.jit  # as one program: a second's fraction at every start, operation by operation
        def begin(anchor: jax.Array) -> State:
            server, state = jax.vmap(self.method.init)(anchor)
            return State(anchor, server, jnp.repeat(state[:, None], clients, axis=1), jnp.zeros_like(anchor))

        return self.place(begin(anchor))

    def place(self, state: State) -> State:
        placed: State = devices.put(state, self.mesh, P())
        return placed

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        floats = self.task.dtype
        orders = Orders(*map(np.asarray, orders, (np.int32, np.int32, floats, floats)))
        queues, shape = self._queues(orders.steps), orders.steps.shape
        if jax.process_count() > 1:  # one process may hand numpy arrays over as they are, which is quicker
            orders = devices.put(orders, self.mesh, P())
            queues = devices.put(queues, self.mesh, P(devices.AXIS))
        common = state, self.fixed, orders, sampling.words(number)
        found = self._abreast[keep]((*common, queue) for queue in queues)
        found = devices.within_reach(found, self.mesh)  # by the same name: the devices' own parts are let go
        state, readings, deltas = self._settle(state, orders, found)
        fields = np.asarray(readings) if readings.size else np.zeros((len(Reading._fields), *shape))
        return state, Outcome(Reading(*fields), deltas if keep else None)

    def _queues(self, steps: Any) -> list[Queue]:
        """Each worker's part of the packed jobs; the last plan's are kept, since many plans never change."""
        before, queues = self._packed
        if before is None or not np.array_equal(before, steps):
            packed = pack(steps, self.mesh.size * self.workers, self.lanes)
            queues = [Queue(*share) for share in devices.dealt(packed, self.workers)]
            self._packed = steps.copy(), queues
        return queues

    def evaluate(self, models: Any, split: str) -> Scores:
        return self._evaluate(models, split)
