"""The jax engine: all clients of all trials in one compiled program, sharded over the devices."""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl import protocol, sampling
from amsfl.core import Reading
from amsfl.core.records import Array, Tree
from amsfl.engines import (
    client_program,
    devices,
    kernel,
    layout,
    multi_round,
    settle_program,
    work_program,
    worker_threads,
)
from amsfl.engines.async_work import AsyncInputs, AsyncWork
from amsfl.engines.contract import (
    JobResults,
    Jobs,
    JobStarts,
    Orders,
    Outcome,
    Scores,
    State,
    own_models,
    rows,
)
from amsfl.engines.devices import Program
from amsfl.engines.evaluate import evaluator
from amsfl.engines.job_table import JobTable, job_tables
from amsfl.engines.memory import check_fits, copies, lane_bytes, room_for
from amsfl.engines.numbers import numbers_of, with_numbers
from amsfl.engines.packing import CORES, SLOTS, Queue, pack_by_trial, pack_for_workers, width
from amsfl.engines.task import Task
from amsfl.engines.work_program import DeviceRows, KeepFlags, ProgramParts
from amsfl.methods import Method
from amsfl.portable.network import count_operations

CALLS = 0.7e6  # the arithmetic (flops) that would take as long as the calls of a step
HARDLY = 0.1  # of a step: calls that are not worth lanes to share them
LANES = 16_384  # on a GPU at most, however small a client is
WIDEST = 7  # lanes on a CPU core: beyond, little is gained, and XLA sums eight abreast in another order


class JaxOptions(TypedDict, total=False):
    """What may be said of how the jax engine works; it chooses the rest."""

    lanes: int | None  # jobs in lockstep on each device
    mesh: Mesh | None  # the devices, of all processes (jax.distributed)
    cohort: int | None  # clients a round, for the check that their state fits
    workers: int | None  # calls side by side
    together: int | None  # jobs of a trial that `work` usually gets
    max_span: int | None  # rounds that `span` takes at most; needs `lanes` and one worker
    kernels: bool | None  # whether a client's steps are one kernel (kernel.py)


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
        trials, clients = shards.size.shape
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
        asked = options.get("kernels")
        self.kernels = kernel.serves(self.mesh, task, method, batch) if asked is None else asked
        client = partial(client_program.program, task, batch=batch, readings=readings, kernels=self.kernels)
        widths = _widths(task, batch)
        light = widths["widest"] > 1
        fit = partial(room_for, lane_bytes(task, method, batch) / sharing, LANES)
        usual = cohort or clients
        lanes = options.get("lanes") or devices.default_lanes(self.mesh, trials * usual, fit)
        several = options.get("together") or usual
        abreast = options.get("lanes") or devices.default_lanes(self.mesh, trials * several, fit)
        self._async_shape = self.workers, abreast or width(-(-several // CORES), **widths)
        if lanes:
            slots, self._pack = 1, partial(pack_for_workers, devices=devices.lanes(self.mesh), lanes=lanes)
        else:
            slots = min(SLOTS, usual)
            self.workers = min(self.workers, trials * slots)  # more would find nothing to do
            self._pack = partial(pack_by_trial, slots=slots, **widths)
        alone = self.mesh.local_devices[0].platform != "cpu" and jax.process_count() == 1
        self.max_span = options.get("max_span") or (
            multi_round.room(task, self.layout, usual) if alone else 1
        )
        self._parts = parts = ProgramParts(self.mesh, method, self.layout, client, slots, light)
        self._keep = {deltas: KeepFlags(readings, deltas) for deltas in (False, True)}
        self._work = {key: work_program.work(parts, keep) for key, keep in self._keep.items()}
        self._further = {key: work_program.work(parts, keep, True) for key, keep in self._keep.items()}
        self._empty = {key: work_program.empty_result(parts, keep) for key, keep in self._keep.items()}
        self._spans: dict[tuple[bool, int | None], Program] = {}  # by keep and by a length known ahead
        # by keep and the queues' widths: each compiles before its workers run side by side
        self._threaded: dict[tuple[bool, tuple[int, ...]], Program] = {}
        self._settle = settle_program.settle(parts)
        mix = with_numbers("mix", method, settle_program.mixing)
        self._mix = devices.jit_small(mix, self.mesh, out_shardings=NamedSharding(self.mesh, P()))
        self._revise = settle_program.revise(parts) if method.judges else None
        self._mixed: tuple[Any, Any] = (None, None)
        self._model, self._own = jax.jit(self._scored), jax.jit(own_models)
        self._evaluate = evaluator(task, self.mesh, self.workers, self.layout.spec(1))
        self._packed: tuple[Any, list[list[Queue]]] = (None, [])
        self._async: AsyncWork | None = None

    def start(self) -> State:
        if self.layout.parts > 1:
            anchor = layout.first_models(self.task, self.layout, self.mesh)
        else:
            anchor = devices.put(self.task.start(), self.mesh, P())
        clients = self.task.shards.size.shape[1]

        def begin(method: Method) -> Program:
            def of(anchor: jax.Array) -> State:
                server = jax.vmap(method.arithmetic.init)(anchor)[0]
                fresh = jax.vmap(partial(protocol.initial_client_state, method))(anchor)
                client, memory = (jnp.repeat(part[:, None], clients, axis=1) for part in fresh)
                server, client, memory = map(self.layout.folded, (server, client, memory))
                return State(anchor, server, client, memory, jnp.zeros_like(anchor))

            return of

        # as one program: a second's fraction at every start, operation by operation
        placed = settle_program.result_shardings(self.mesh, self.layout)[0]
        program = devices.jit_small(
            with_numbers("begin", self.method, begin), self.mesh, out_shardings=placed
        )
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
        table, mix, seeds = self._table(orders, number), self._share(orders), self._seeds
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
        fields = np.asarray(readings) if readings.size else np.zeros((len(Reading._fields), *shape))
        return state, Outcome(Reading(*fields), deltas if keep else None, weighed)

    def revise(self, state: State, verdicts: Array) -> State:
        assert self._revise is not None
        revised: State = self._revise(self.numbers, state, np.asarray(verdicts, np.int32))
        return revised

    def span(
        self, state: State, orders: Sequence[Orders], number: int, keep: bool = False
    ) -> tuple[State, list[Outcome]]:
        rounds = [self._typed(each) for each in orders]
        plans = [
            multi_round.PlannedRounds(each, self._table(each, number + nth), self._queues(each.steps)[0][0])
            for nth, each in enumerate(rounds)
        ]
        longest = self._length(rounds)
        if (keep, longest) not in self._spans:
            self._spans[keep, longest] = multi_round.program(self._parts, self._keep[keep], longest)
        spare = self.max_span - len(rounds)  # so that one program serves any number of rounds
        stacked = jax.tree.map(lambda *parts: np.stack(parts), *plans, *[plans[-1]] * spare)
        rest = sampling.words(number), np.int32(len(rounds)), self._seeds
        past = self._spans[keep, longest](self.numbers, state, self.rows, stacked, *rest)
        readings = np.asarray(past.readings)
        if not readings.size:
            readings = np.zeros((len(rounds), len(Reading._fields), *rounds[0].steps.shape))
        deltas = [self.at(past.deltas, nth) if keep else None for nth in range(len(rounds))]
        weighed = {name: np.asarray(part) for name, part in past.weighed.items()}
        return past.state, [
            Outcome(Reading(*readings[nth]), deltas[nth], {name: part[nth] for name, part in weighed.items()})
            for nth in range(len(rounds))
        ]

    def _length(self, rounds: Sequence[Orders]) -> int | None:
        """The steps of every job of these rounds, where that is one number; a GPU gains from knowing it."""
        lengths = {int(steps) for each in rounds for steps in np.unique(each.steps[each.steps > 0])}
        compiled = {longest for _, longest in self._spans if longest}
        if self.kernels or self._readings or len(lengths) > 1 or self.mesh.local_devices[0].platform == "cpu":
            return None
        return lengths.pop() if lengths <= compiled or len(compiled) < multi_round.LENGTHS else None

    def at(self, states: Array, index: int) -> Tree:
        return multi_round.at(states, index)

    def _typed(self, orders: Orders) -> Orders:
        floats = self.task.dtype
        kinds = (np.int32, np.int32, floats, floats, floats, np.int32, np.uint32, floats)
        orders = Orders(*map(np.asarray, orders, kinds))
        return orders._replace(lr_known=np.broadcast_to(orders.lr_known, orders.lr.shape))

    def _table(self, orders: Orders, number: int) -> JobTable:
        rates = orders.lr[:, None], orders.lr_known[:, None]
        return self._tables(orders.cohort, orders.steps, *rates, number)

    def _share(self, orders: Orders) -> Array:
        """How much every upload counts; the last plan's is kept, as its queues are."""
        last, _ = self._mixed
        plan = np.stack([orders.weights, orders.steps])
        if last is None or not np.array_equal(last, plan):
            values = orders.weights, orders.steps
            if jax.process_count() > 1:
                values = devices.put(values, self.mesh, P())
            self._mixed = plan, self._mix(self.numbers, *values)
        return self._mixed[1]

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        if self._async is None:
            inputs = AsyncInputs(self.numbers, self.rows, self._tables, self.task.dtype)
            self._async = AsyncWork(self._parts, *self._async_shape, inputs)
        return self._async.work(starts, jobs)

    def _queues(self, steps: Array) -> list[list[Queue]]:
        """Each worker's part of the packed jobs; the last plan's are kept, since many plans never change."""
        before, queues = self._packed
        if before is None or not np.array_equal(before, steps):
            queues = self._pack(steps, workers=self.workers)
            self._packed = steps.copy(), queues
        return queues

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


def _widths(task: Task, batch: int) -> dict[str, Any]:
    """How wide queues may be on a CPU core, and what a step costs besides its arithmetic.

    A step is some 30 calls of compiled code, whatever they do, which several lanes share: in jobs A and B of
    benchmarks/ a lane's step takes 1.16 and 1.23 times as long alone as among five, both cores busy.
    XLA's own convolutions of several lanes, each with its own kernels, are far slower than one after another.
    Where calls hardly count, lanes only crowd each other out of the cache: jobs C, E and F take about
    1.15 times as long among five as alone.
    """
    shapes = jax.tree.leaves(task.shapes)
    convolves = any(leaf.ndim > 2 for leaf in shapes)
    forward = max(2 * task.dim, count_operations(task.model.layers))
    overhead = min(1.0, CALLS / (3 * batch * forward))
    return {"overhead": overhead, "widest": 1 if convolves or overhead < HARDLY else WIDEST}
