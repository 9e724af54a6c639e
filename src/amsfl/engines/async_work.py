"""Local rounds that each begin from a model of their own: the jobs of asynchronous rounds.

Jobs are computed together, `lanes` side by side, and returned one by one. Nothing is summed here: which of
them the server takes together is known only when it moves. Every wave is equally wide (lanes without a job
are filled), so a job's bits depend on nothing beside it.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from amsfl.core import UserError
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import devices, worker_threads
from amsfl.engines.contract import JobResults, Jobs, JobStarts, as_reading
from amsfl.engines.devices import Program
from amsfl.engines.job_table import (
    ClientJob,
    ClientResult,
    DeviceRows,
    JobIntegers,
    JobTable,
    job_row,
)
from amsfl.engines.packing import Queue, pack_for_workers
from amsfl.engines.work_program import ProgramParts, with_parts


class AsyncWork:
    """work(starts, jobs) -> JobResults, on the host: jobs of 0 steps are left out, and their rows are zeros.

    `shape`: workers and lanes; `common`: the method's numbers and the rows, which all calls have in common.
    """

    def __init__(
        self,
        parts: ProgramParts,
        shape: tuple[int, int],
        tables: Callable[..., JobTable],
        common: tuple[Array, DeviceRows],
    ):
        self.mesh, self.tables, (self.workers, self.lanes) = parts.mesh, tables, shape
        self.numbers, self.rows = common
        build = with_parts("async_work", parts, lambda own: program(own.mesh, own.client(own.method)))
        options = devices.compiler_options(parts.mesh, parts.light)
        self._run = worker_threads.in_threads(jax.jit(build, compiler_options=options))

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        if jax.process_count() > 1:
            raise UserError("A round that ends before all are in runs in one process; use --round-end all.")
        floats, count = self.numbers.dtype, len(jobs.steps)
        kinds = [*[np.int32] * 3, floats, np.uint32]
        jobs = Jobs(*map(np.asarray, jobs, kinds))
        queues = [
            each[0]
            for each in pack_for_workers(jobs.steps[None], devices.lanes(self.mesh), self.workers, self.lanes)
            if each[0].waves.any()
        ]
        table = self.tables(jobs.client, jobs.steps, jobs.lr, jobs.number, jobs.trial)
        # once for all workers
        begins, table = devices.put((starts, table), self.mesh, P())
        results = self._run((self.numbers, begins, self.rows, table, queue) for queue in queues)
        return self._gathered(queues, results, count)

    def _gathered(self, queues: Sequence[Queue], results: Sequence[ClientResult], count: int) -> JobResults:
        """Every job's row from the worker that computed it."""
        parts = [jax.tree.map(np.asarray, each) for each in results]
        whole = jax.tree.map(lambda part: np.zeros((count, *part.shape[2:]), part.dtype), parts[0])
        for queue, part in zip(queues, parts, strict=True):
            for device, mine in enumerate(queue.jobs):
                rows = mine[mine >= 0]
                jax.tree.map(
                    lambda into, of, rows=rows, device=device: _put(into, of[device], rows), whole, part
                )
        readings = as_reading(np.moveaxis(whole.reading, -1, 0), (count,))
        return JobResults(whole.upload, whole.client, whole.memory, readings)


def _put(into: Tree, of: Tree, rows: Array) -> None:
    into[rows] = of[rows]


def program(mesh: Mesh, client: Program) -> Program:
    """One worker's waves -> ClientResult of all jobs, [devices, jobs, ...]; zeros where others work."""

    def one(
        begins: JobStarts, rows: DeviceRows, table: JobTable, job: jax.Array, longest: Number
    ) -> ClientResult:
        begin = JobStarts(*(part[jnp.maximum(job, 0)] for part in begins))
        own = ClientJob(begin, *job_row(table, job), rows)
        result: ClientResult = client(own, longest)
        return result

    def waves(begins: JobStarts, rows: DeviceRows, table: JobTable, queue: Queue) -> ClientResult:
        count, longest = len(table.integers), JobIntegers(*table.integers.T).steps
        wave = jax.vmap(partial(one, begins, rows, table), in_axes=(0, None))
        shape = jax.eval_shape(wave, queue.jobs[0, 0], longest[0])
        empty = jax.tree.map(lambda part: jnp.zeros((count, *part.shape[1:]), part.dtype), shape)

        def run(index: Number, results: ClientResult) -> ClientResult:
            job = queue.jobs[0, index]
            done = wave(job, longest[job[0]])  # the longest comes first
            place = jnp.where(job >= 0, job, count)
            put: ClientResult = jax.tree.map(
                lambda into, part: into.at[place].set(part, mode="drop"), results, done
            )
            return put

        def once(_: Number, results: ClientResult) -> ClientResult:
            all_of_it: ClientResult = jax.lax.fori_loop(0, queue.waves[0], run, results)
            return all_of_it

        begin = jax.lax.pcast(empty, devices.AXIS, to="varying")
        # in a loop that runs once: see work_program.work_body
        results = jax.lax.fori_loop(0, jnp.minimum(queue.waves[0], 1), once, begin)
        whole: ClientResult = jax.tree.map(lambda part: part[None], results)
        return whole

    spread = P(devices.AXIS)
    return devices.sharded(waves, mesh, (P(), P(), P(), Queue(*[spread] * len(Queue._fields))), spread)
