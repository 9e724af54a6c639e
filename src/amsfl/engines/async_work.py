"""Local rounds that each begin from a model of their own: what is under way between moves of the server.

Jobs are computed together, `lanes` abreast, and come back one by one: nothing is summed in here, since which
of them the server takes together is known only when it moves. Every wave is equally wide (lanes without a job
go along), so a job's bits depend on nothing beside it.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpy.typing import DTypeLike

from amsfl.core import Reading, UserError
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import client_program, devices, worker_threads
from amsfl.engines.contract import JobResults, Jobs, JobStarts
from amsfl.engines.devices import Program
from amsfl.engines.job import ClientResult as Ended
from amsfl.engines.job import StartVectors, make_job
from amsfl.engines.job_table import JobIntegers, JobTable, job_row
from amsfl.engines.numbers import with_numbers
from amsfl.engines.packing import Queue, pack_for_workers
from amsfl.engines.work_program import DeviceRows, Local
from amsfl.methods import Method


class AsyncWork:
    """work(starts, jobs) -> Done, on the host: jobs of 0 steps are left out, and their rows are zeros."""

    def __init__(
        self,
        mesh: Mesh,
        workers: int,
        method: Method,
        local: Local,
        lanes: int,
        fixed: tuple[Tree, DeviceRows],
        deal: Array,
        dtype: DTypeLike,
        light: bool,
    ):
        self.mesh, self.workers, self.lanes, self.dtype = mesh, workers, lanes, dtype
        self.constants, self.fixed = fixed
        self._deal = deal
        build = with_numbers("flights", method, lambda method: program(mesh, local(method)))
        self._abreast = worker_threads.in_threads(
            jax.jit(build, compiler_options=devices.compiler_options(mesh, light))
        )

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        if jax.process_count() > 1:
            raise UserError("A round that ends before all are in runs in one process; use --round-end all.")
        floats, count = self.dtype, len(jobs.steps)
        jobs = Jobs(*map(np.asarray, jobs, (np.int32, np.int32, np.int32, floats, floats, np.uint32)))
        queues = [
            each[0]
            for each in pack_for_workers(jobs.steps[None], devices.lanes(self.mesh), self.workers, self.lanes)
            if each[0].waves.any()
        ]
        cards = self._deal(jobs.client, jobs.steps, jobs.lr, jobs.lr_known, jobs.number, jobs.trial)
        # once for all workers
        begins, cards = devices.put((StartVectors(*starts), cards), self.mesh, P())
        found = self._abreast((self.constants, begins, self.fixed, cards, queue) for queue in queues)
        return self._gathered(queues, found, count)

    def _gathered(self, queues: Sequence[Queue], found: Sequence[Ended], count: int) -> JobResults:
        """Every job's row from whoever worked on it."""
        parts = [jax.tree.map(np.asarray, each) for each in found]
        whole = jax.tree.map(lambda part: np.zeros((count, *part.shape[2:]), part.dtype), parts[0])
        for queue, part in zip(queues, parts, strict=True):
            for device, mine in enumerate(queue.jobs):
                rows = mine[mine >= 0]
                jax.tree.map(
                    lambda into, of, rows=rows, device=device: _put(into, of[device], rows), whole, part
                )
        readings = np.moveaxis(whole.reading, -1, 0)
        if not readings.size:
            readings = np.zeros((len(Reading._fields), count))
        return JobResults(whole.upload, whole.client, whole.memory, Reading(*readings))


def _put(into: Tree, of: Tree, rows: Array) -> None:
    into[rows] = of[rows]


def program(mesh: Mesh, local: client_program.ClientProgram) -> Program:
    """One worker's waves -> Ended of all jobs, [devices, jobs, ...]; zeros where others work."""

    def one(
        begins: StartVectors, fixed: DeviceRows, cards: JobTable, job: jax.Array, longest: Number
    ) -> Ended:
        place = jnp.maximum(job, 0)
        told, *rest = job_row(cards, place)
        told = told._replace(steps=jnp.where(job >= 0, told.steps, 0))
        begin = StartVectors(*(part[place] for part in begins))
        return local.whole(make_job(begin, (told, *rest), *fixed), longest)

    def waves(begins: StartVectors, fixed: DeviceRows, cards: JobTable, queue: Queue) -> Ended:
        count, longest = len(cards.whole), JobIntegers(*cards.whole.T).steps
        abreast = jax.vmap(partial(one, begins, fixed, cards), in_axes=(0, None))
        shape = jax.eval_shape(abreast, queue.jobs[0, 0], longest[0])
        empty = jax.tree.map(lambda part: jnp.zeros((count, *part.shape[1:]), part.dtype), shape)

        def run(index: Number, found: Ended) -> Ended:
            job = queue.jobs[0, index]
            done = abreast(job, longest[job[0]])  # the longest comes first
            place = jnp.where(job >= 0, job, count)
            put: Ended = jax.tree.map(lambda into, part: into.at[place].set(part, mode="drop"), found, done)
            return put

        def once(_: Array, found: Ended) -> Ended:
            all_of_it: Ended = jax.lax.fori_loop(0, queue.waves[0], run, found)
            return all_of_it

        begin = jax.lax.pcast(empty, devices.AXIS, to="varying")
        # in a loop that goes round once: see programs.work
        found = jax.lax.fori_loop(0, jnp.minimum(queue.waves[0], 1), once, begin)
        whole: Ended = jax.tree.map(lambda part: part[None], found)
        return whole

    spread = P(devices.AXIS)
    return devices.sharded(waves, mesh, (P(), P(), P(), Queue(*[spread] * len(Queue._fields))), spread)
