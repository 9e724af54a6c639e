"""The jax engine: all clients of all trials in one compiled program, sharded over the devices."""

from collections.abc import Sequence
from functools import partial
from typing import Unpack

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl import sampling
from amsfl.core.records import Array, Tree
from amsfl.engines import (
    client_program,
    devices,
    layout,
    settle_program,
    work_program,
    worker_threads,
)
from amsfl.engines.async_work import AsyncWork
from amsfl.engines.contract import JobResults, Jobs, JobStarts, Orders, Outcome, State, as_reading, own_models
from amsfl.engines.devices import Program
from amsfl.engines.evaluate import evaluator
from amsfl.engines.job_table import DeviceRows, JobTable, job_tables
from amsfl.engines.memory import check_fits, copies
from amsfl.engines.numbers import numbers_of, with_numbers
from amsfl.engines.packing import JaxOptions, choose_lanes, of_last
from amsfl.engines.scores import Scores, rows
from amsfl.engines.task import Task
from amsfl.engines.work_program import ProgramParts
from amsfl.methods import Method


class JaxEngine:
    """Engine (see contract.Engine): `lanes` jobs in lockstep on each of the devices, `workers` times over.

    Without `lanes` a GPU takes many, several CPU devices take jobs one by one, and on one CPU device every
    trial has the cheapest packing of its own plan (packing.pack_by_trial).
    Where the mesh spans processes, all of them make the same calls with the same values and hold the same
    results, but for vectors of a model's size where devices share models (layout.py): each has its part, and
    `to_host` and `models_to_host` put them together.
    """

    def __init__(
        self,
        task: Task,
        method: Method,
        batch: int,
        readings: bool = False,
        **options: Unpack[JaxOptions],
    ):
        self.mesh = options.get("mesh") or devices.mesh()
        self.method, self._readings, shards = method, readings, task.shards
        cohort, sharing = options.get("cohort"), devices.parts(self.mesh)
        self.layout = layout.make(task, method, sharing)
        self.needs_all_processes = sharing > 1 and jax.process_count() > 1
        self.workers = options.get("workers") or devices.workers(self.mesh)
        check_fits(task, method, copies(self.mesh), cohort, self.workers)
        self.task = task = layout.laid_out(task, self.layout)
        # replicated from the start: what arrives on one device would be copied, and compiled for, anew
        self.rows = devices.put(DeviceRows(task.x, task.y, shards.order), self.mesh, P())
        self.numbers = devices.put(numbers_of(method, task.dtype), self.mesh, P())
        self._seeds = sampling.words(task.seeds)
        self._tables = job_tables(task, batch, method.private_rows is not None)
        client = partial(client_program.program, task, batch=batch, readings=readings)
        lanes = choose_lanes(task, method, batch, self.mesh, options)
        self.workers, self._async_shape = lanes.workers, lanes.async_shape
        self._parts = parts = ProgramParts(
            self.mesh, method, self.layout, client, lanes.slots, lanes.light, readings
        )
        # by whether deltas are kept
        self._work = {keep: work_program.work(parts, keep) for keep in (False, True)}
        self._further = {keep: work_program.work(parts, keep, True) for keep in (False, True)}
        self._empty = {keep: work_program.empty_result(parts, keep) for keep in (False, True)}
        # by keep and the queues' widths: each compiles before its workers run side by side
        self._threaded: dict[tuple[bool, tuple[int, ...]], Program] = {}
        self._settle = settle_program.settle(parts)
        mix = with_numbers("mix", method, settle_program.mixing)
        self._mix = devices.jit_small(mix, self.mesh, out_shardings=NamedSharding(self.mesh, P()))
        self._revise = settle_program.revise(parts) if method.judges else None
        self._share = of_last(self._mixed)
        self._queues = of_last(partial(lanes.pack, workers=self.workers))
        self._model, self._own = jax.jit(self._scored), jax.jit(own_models)
        self._evaluate = evaluator(task, self.mesh, self.workers, self.layout.spec(1))
        self._async: AsyncWork | None = None

    def start(self) -> State:
        if self.layout.parts > 1:
            anchor = layout.first_models(self.task, self.layout, self.mesh)
        else:
            anchor = devices.put(self.task.start(), self.mesh, P())
        program = settle_program.initial_state(self._parts, self.task.shards.size.shape[1])
        state: State = program(self.numbers, anchor)
        return state

    def from_host(self, state: State) -> State:
        return State(*map(self._placed, state, self.layout.specs()))

    def _placed(self, plain: Array, spec: P) -> Array:
        return devices.put(self.layout.arranged(np.asarray(plain)), self.mesh, spec)

    def to_host(self, state: State) -> State:
        return State(*map(self.layout.plain, map(devices.gather, state), self.layout.lengths))

    def models_to_host(self, models: Array) -> Array:
        return self.layout.plain(devices.gather(models), self.layout.size)

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        orders = self._typed(orders)
        queues, shape = [each for each in self._queues(orders.steps) if each], orders.steps.shape
        widths = tuple(queue.jobs.shape[2] for each in queues for queue in each)
        table, mix, seeds = (
            self._table(orders, number),
            self._share(orders.weights, orders.steps),
            self._seeds,
        )
        if jax.process_count() > 1:  # one process may hand numpy arrays over as they are, which is quicker
            orders, table, seeds = devices.put((orders, table, seeds), self.mesh, P())
            queues = devices.put(queues, self.mesh, P(devices.AXIS))
        common = self.numbers, state, self.rows, table, mix
        results = self._side_by_side(keep, widths)((*common, each) for each in queues)
        if len(results) < self.workers:  # a plan of few waves; the sum is the same program all the same
            results += [self._empty[keep](*common)] * (self.workers - len(results))
        results = devices.on_mesh(results, self.mesh)  # by the same name: frees the devices' parts
        rest = orders, results, sampling.words(number), seeds
        state, readings, deltas, weighed = self._settle(self.numbers, state, *rest)
        return state, Outcome(as_reading(readings, shape), deltas if keep else None, weighed)

    def revise(self, state: State, verdicts: Array) -> State:
        assert self._revise is not None
        revised: State = self._revise(self.numbers, state, np.asarray(verdicts, np.int32))
        return revised

    def _typed(self, orders: Orders) -> Orders:
        floats = self.task.dtype
        kinds = Orders(np.int32, np.int32, floats, floats, attackers=np.int32, largest=floats)
        return Orders(*map(np.asarray, orders, kinds))

    def _table(self, orders: Orders, number: int) -> JobTable:
        return self._tables(orders.cohort, orders.steps, orders.lr[:, None], number)

    def _mixed(self, weights: Array, steps: Array) -> Array:
        """How much every upload counts."""
        values = weights, steps
        if jax.process_count() > 1:
            values = devices.put(values, self.mesh, P())
        return self._mix(self.numbers, *values)

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        if self._async is None:
            common = self.numbers, self.rows
            self._async = AsyncWork(self._parts, self._async_shape, self._tables, common)
        return self._async.work(starts, jobs)

    def _side_by_side(self, keep: bool, widths: tuple[int, ...]) -> Program:
        if (keep, widths) not in self._threaded:
            self._threaded[keep, widths] = worker_threads.in_threads(partial(self._through, keep))
        return self._threaded[keep, widths]

    def _through(self, keep: bool, *arguments: Tree) -> Tree:
        """One worker's queues in turn."""
        *common, (first, *others) = arguments
        result = self._work[keep](*common, first)
        for queue in others:
            result = self._further[keep](*common, queue, result)
        return result

    def models(self, state: State) -> Array:
        return self._model(state.anchor, state.server)

    def client_models(self, state: State, deltas: Array, trial: int) -> Array:
        return self._own(state.anchor, state.step, deltas, np.int32(trial))

    def _scored(self, anchor: jax.Array, server: jax.Array) -> jax.Array:
        own = self.layout.opened(rows(server), self.layout.lengths.server)
        models: jax.Array = self.method.arithmetic.model(rows(anchor), own)
        return models

    def evaluate(self, models: Array, split: str, places: Sequence[int] | None = None) -> Scores:
        own = models if isinstance(models, jax.Array) else self.layout.arranged(np.asarray(models))
        return self._evaluate(own, split, places)
