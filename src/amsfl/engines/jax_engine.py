"""The jax engine: all clients of all trials in one compiled program, sharded over the devices."""

from collections.abc import Sequence
from functools import partial
from typing import Any

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
from amsfl.engines.async_work import AsyncWork
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
from amsfl.engines.packing import CORES, SLOTS, Queue, laid_aside, pack_by_trial, pack_for_workers, width
from amsfl.engines.task import Task
from amsfl.engines.work_program import DeviceRows
from amsfl.methods import Method
from amsfl.portable.network import count_operations

CALLS = 0.7e6  # the arithmetic (flops) that would take as long as the calls of a step
HARDLY = 0.1  # of a step: calls that are not worth lanes to share them
LANES = 16_384  # on a GPU at most, however small a client is
WIDEST = 7  # lanes on a CPU core: beyond, little is gained, and XLA sums eight abreast in another order


class JaxEngine:
    """Engine (see base.Engine): `lanes` jobs in lockstep on each of `mesh`'s devices, `workers` times over.

    Without `lanes` a GPU takes many, one by one go those on several CPU devices, and on one CPU device every
    trial has the cheapest packing of its own plan (waves.by_trial).
    `mesh` may span processes (jax.distributed): all of them make the same calls with the same values, and
    all hold the same results, but for vectors of a model's size where devices share models (layout.py): each
    has its part, and `kept` and `whole` put them together.
    `cohort`, the clients a round, sharpens the check that client state fits; `together`, the jobs that `work`
    is usually given of a trial, says how wide its waves are; `ahead`, how many rounds `span` takes at most (a
    GPU: what there is memory for), which needs `lanes` and one worker; `kernels`, whether a client's steps
    are one kernel (kernel.py), unless given where that serves.
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
        together: int | None = None,
        ahead: int | None = None,
        kernels: bool | None = None,
    ):
        self.mesh = mesh or devices.mesh()
        self.method, self._readings = method, readings
        parts = devices.parts(self.mesh)
        self.layout = layout.make(task, method, parts)
        self.joint = parts > 1 and jax.process_count() > 1
        self.workers = workers or devices.workers(self.mesh)
        check_fits(task, method, copies(self.mesh), cohort, self.workers)
        self.task = task = layout.laid_out(task, self.layout)
        shards = task.shards
        # replicated from the start: what arrives on one device would be copied, and compiled for, anew
        self.fixed = devices.put(DeviceRows(task.x, task.y, shards.order), self.mesh, P())
        self.numbers = devices.put(numbers_of(method, task.dtype), self.mesh, P())
        self._seeds, self._deal = (
            sampling.words(task.seeds),
            job_tables(task, batch, method.private_rows is not None),
        )
        gpu = self.mesh.local_devices[0].platform != "cpu"
        self.kernels = kernel.serves(self.mesh, task, method, batch) if kernels is None else kernels
        work = partial(client_program.program, task, batch=batch, readings=readings, kernels=self.kernels)
        kept = {deltas: work_program.KeepFlags(readings, deltas) for deltas in (False, True)}
        trials, clients = shards.size.shape
        few = together or cohort or clients
        fit = partial(room_for, lane_bytes(task, method, batch) / parts, LANES)
        abreast = lanes or devices.default_lanes(self.mesh, trials * few, fit)
        widths = _widths(task, batch)
        light = widths["widest"] > 1
        abreast = abreast or width(-(-few // CORES), **widths)
        self._flights = partial(
            AsyncWork,
            self.mesh,
            self.workers,
            method,
            work,
            abreast,
            (self.numbers, self.fixed),
            self._deal,
            task.dtype,
            light,
        )
        lanes = lanes or devices.default_lanes(self.mesh, trials * (cohort or clients), fit)
        if lanes:
            slots, self._pack = 1, partial(pack_for_workers, devices=devices.lanes(self.mesh), lanes=lanes)
        else:
            slots = min(SLOTS, cohort or clients)
            self.workers = min(self.workers, trials * slots)  # more would find nothing to do
            self._pack = partial(pack_by_trial, slots=slots, **widths, parted=not light)
        self._parted = not (lanes or light)  # whether a client's steps may be parted between workers
        alone = gpu and jax.process_count() == 1
        self.ahead = ahead or (multi_round.room(task, self.layout, cohort or clients) if alone else 1)
        self._spans: dict[Any, Any] = {}  # by whether deltas are kept and by a length that is known ahead
        self._span = partial(multi_round.program, self.mesh, method, self.layout, work, light)
        self._kept = kept
        common = self.mesh, method, self.layout
        self._work = {key: work_program.work(*common, work, kept[key], slots, light) for key in kept}
        self._further = {key: work_program.work(*common, work, kept[key], slots, light, True) for key in kept}
        self._begin = {key: work_program.empty_result(*common, work, kept[key], slots) for key in kept}
        self._abreast: dict[
            tuple[bool, tuple[int, ...]], Program
        ] = {}  # by the queues' widths: each compiles before its workers part
        self._settle = settle_program.settle(*common, slots)
        self._mix = devices.jit_small(
            with_numbers("mix", method, settle_program.mixing),
            self.mesh,
            out_shardings=NamedSharding(self.mesh, P()),
        )
        self._mixed: tuple[Tree, Tree] = (None, None)
        self._model, self._own = jax.jit(self._scored), jax.jit(own_models)
        self._evaluate = evaluator(task, self.mesh, self.workers, self.layout.spec(1))
        self._packed: tuple[Tree, list[list[Queue]]] = (None, [])
        self._aloft: AsyncWork | None = None

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
        found: State = devices.jit_small(
            with_numbers("begin", self.method, begin), self.mesh, out_shardings=placed
        )(self.numbers, anchor)
        return found

    def place(self, state: State) -> State:
        return State(*map(self._placed, state, self.layout.specs()))

    def _placed(self, plain: Array, spec: P) -> Array:
        return devices.put(self.layout.arranged(np.asarray(plain)), self.mesh, spec)

    def kept(self, state: State) -> State:
        return State(*map(self.layout.plain, map(devices.gather, state), self.layout.lengths))

    def whole(self, models: Array) -> Array:
        return self.layout.plain(devices.gather(models), self.layout.size)

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        orders = self._typed(orders)
        queues, shape = [each for each in self._queues(orders.steps) if each], orders.steps.shape
        widths = () if self._parted else tuple(queue.jobs.shape[2] for each in queues for queue in each)
        cards, mix, seeds = self._cards(orders, number), self._share(orders), self._seeds
        if jax.process_count() > 1:  # one process may hand numpy arrays over as they are, which is quicker
            orders, cards, seeds = devices.put((orders, cards, seeds), self.mesh, P())
            queues = devices.put(queues, self.mesh, P(devices.AXIS))
        common, hands = (
            (self.numbers, state, self.fixed, cards, mix),
            worker_threads.Handover(laid_aside(*queues)),
        )
        found = self._side_by_side(keep, widths)((*common, hands, each) for each in queues)
        if len(found) < self.workers:  # a plan of few waves; the sum is the same program all the same
            found += [self._begin[keep](*common)[0]] * (self.workers - len(found))
        found = devices.on_mesh(found, self.mesh)  # by the same name: the devices' own parts are let go
        given = orders, found, sampling.words(number), seeds
        state, readings, deltas, weighed = self._settle(self.numbers, state, *given)
        fields = np.asarray(readings) if readings.size else np.zeros((len(Reading._fields), *shape))
        return state, Outcome(Reading(*fields), deltas if keep else None, weighed)

    def span(
        self, state: State, orders: Sequence[Orders], number: int, keep: bool = False
    ) -> tuple[State, list[Outcome]]:
        rounds = [self._typed(each) for each in orders]
        plans = [
            multi_round.PlannedRounds(each, self._cards(each, number + nth), self._queues(each.steps)[0][0])
            for nth, each in enumerate(rounds)
        ]
        longest = self._length(rounds)
        if (keep, longest) not in self._spans:
            self._spans[keep, longest] = self._span(self._kept[keep], longest)
        spare = self.ahead - len(rounds)  # so that one program serves any number of rounds
        given = jax.tree.map(lambda *parts: np.stack(parts), *plans, *[plans[-1]] * spare)
        past = self._spans[keep, longest](
            self.numbers,
            state,
            self.fixed,
            given,
            sampling.words(number),
            np.int32(len(rounds)),
            self._seeds,
        )
        told = np.asarray(past.readings)
        if not told.size:
            told = np.zeros((len(rounds), len(Reading._fields), *rounds[0].steps.shape))
        deltas = [self.at(past.deltas, nth) if keep else None for nth in range(len(rounds))]
        weighed = {name: np.asarray(part) for name, part in past.weighed.items()}
        return past.state, [
            Outcome(Reading(*told[nth]), deltas[nth], {name: part[nth] for name, part in weighed.items()})
            for nth in range(len(rounds))
        ]

    def _length(self, rounds: Sequence[Orders]) -> int | None:
        """The steps of every job of these rounds, where that is one number; a GPU gains from knowing it."""
        lengths = {int(steps) for each in rounds for steps in np.unique(each.steps[each.steps > 0])}
        known = {longest for _, longest in self._spans if longest}
        if self.kernels or self._readings or len(lengths) > 1 or self.mesh.local_devices[0].platform == "cpu":
            return None
        return lengths.pop() if lengths <= known or len(known) < multi_round.LENGTHS else None

    def at(self, states: Array, index: int) -> Tree:
        return multi_round.at(states, index)

    def _typed(self, orders: Orders) -> Orders:
        floats = self.task.dtype
        kinds = (np.int32, np.int32, floats, floats, floats, np.int32, np.uint32, floats)
        orders = Orders(*map(np.asarray, orders, kinds))
        return orders._replace(lr_known=np.broadcast_to(orders.lr_known, orders.lr.shape))

    def _cards(self, orders: Orders, number: int) -> JobTable:
        return self._deal(orders.cohort, orders.steps, orders.lr[:, None], orders.lr_known[:, None], number)

    def _share(self, orders: Orders) -> Array:
        """How much every upload counts; the last plan's is kept, as its queues are."""
        before, _ = self._mixed
        plan = np.stack([orders.weights, orders.steps])
        if before is None or not np.array_equal(before, plan):
            given = orders.weights, orders.steps
            if jax.process_count() > 1:
                given = devices.put(given, self.mesh, P())
            self._mixed = plan, self._mix(self.numbers, *given)
        return self._mixed[1]

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        self._aloft = self._aloft or self._flights()
        return self._aloft.work(starts, jobs)

    def _queues(self, steps: Array) -> list[list[Queue]]:
        """Each worker's part of the packed jobs; the last plan's are kept, since many plans never change."""
        before, queues = self._packed
        if before is None or not np.array_equal(before, steps):
            queues = self._pack(steps, workers=self.workers)
            self._packed = steps.copy(), queues
        return queues

    def _side_by_side(self, keep: bool, widths: tuple[int, ...]) -> Program:
        if (keep, widths) not in self._abreast:
            self._abreast[keep, widths] = worker_threads.in_threads(partial(self._through, keep))
        return self._abreast[keep, widths]

    def _through(self, keep: bool, *arguments: Tree) -> Tree:
        """One worker's queues, one after another; clients that are laid aside go from hand to hand."""
        *common, hands, queues = arguments
        with hands.promised(laid_aside(queues)):
            if self._parted:  # whole clients and parts of one are the same program's
                (found, aside), rest = self._begin[keep](*common), queues
            else:
                (found, aside), rest = self._work[keep](*common, queues[0]), queues[1:]
            for queue in rest:
                if queue.taken is not None:
                    aside = hands.take(queue.taken)
                found, aside = self._further[keep](*common, queue, found, aside)
                if queue.laid_aside is not None:
                    hands.give(queue.laid_aside, aside)
        return found

    def models(self, state: State) -> Array:
        return self._model(state.anchor, state.server)

    def own(self, state: State, deltas: Array, trial: int) -> Array:
        return self._own(state.anchor, state.step, deltas, np.int32(trial))

    def _scored(self, anchor: jax.Array, server: jax.Array) -> jax.Array:
        found: jax.Array = self.method.arithmetic.model(
            rows(anchor), self.layout.opened(rows(server), self.layout.lengths.server)
        )
        return found

    def evaluate(self, models: Array, split: str, places: Sequence[int] | None = None) -> Scores:
        own = models if isinstance(models, jax.Array) else self.layout.arranged(np.asarray(models))
        return self._evaluate(own, split, places)


def _widths(task: Task, batch: int) -> dict[str, Any]:
    """How wide queues may be on a CPU core (waves.by_trial), and what a step costs besides its arithmetic.

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
