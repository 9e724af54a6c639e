"""The jax engine: all clients of all trials in one compiled program, sharded over the devices."""

from typing import Any, NamedTuple

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


class Sent(NamedTuple):
    """Orders as they were asked for, and as they lie on the devices."""

    wanted: Orders
    orders: Orders
    queues: list[Queue]  # one per worker


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
        self._last: Sent | None = None

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
        sent = self._sent(orders)
        counter = sampling.words(number)
        found = self._abreast[keep]((state, self.fixed, sent.orders, counter, queue) for queue in sent.queues)
        found = devices.within_reach(found)  # by the same name: the devices' own parts are let go
        state, readings, deltas = self._settle(state, sent.orders, found)
        fields = (
            np.asarray(readings)
            if readings.size
            else np.zeros((len(Reading._fields), *sent.wanted.steps.shape))
        )
        return state, Outcome(Reading(*fields), deltas if keep else None)

    def _sent(self, orders: Orders) -> Sent:
        """Orders and their packing on the devices, kept for the next round, which often asks for the same:
        0.3 ms a round on two CPU devices."""
        floats = self.task.dtype
        wanted = Orders(*map(np.asarray, orders, (np.int32, np.int32, floats, floats)))
        if self._last is None or not all(map(np.array_equal, wanted, self._last.wanted)):
            size, count = self.mesh.size, self.workers
            jobs, waves = pack(wanted.steps, size * count, self.lanes)
            split = [
                Queue(jobs[n * size : (n + 1) * size], waves[n * size : (n + 1) * size]) for n in range(count)
            ]
            self._last = Sent(
                wanted,
                devices.put(wanted, self.mesh, P()),
                devices.put(split, self.mesh, P(devices.AXIS)),
            )
        return self._last

    def evaluate(self, models: Any, split: str) -> Scores:
        return self._evaluate(models, split)
