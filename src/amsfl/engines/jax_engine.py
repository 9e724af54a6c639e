"""The jax engine: jobs (one client's round in one trial) go in waves, side by side; waves run at once.

A wave is one call of one compiled program: its jobs go in lockstep, and it returns their uploads' sum, or the
uploads themselves where somebody compares them. Sums of floats depend on their order, and a job's bits on
whether it runs alone or among others. So on a CPU waves are cut within a trial, by its own plan, and summed
in one order: neither cores nor the trials beside it change a bit. A GPU takes all jobs that it has room for.
"""

from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amsfl.core import Upload
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import client_program, devices, private_gradients, several_rounds
from amsfl.engines.client_program import BEGIN, SHARE, STEPS, TRIAL, ClientJob, Rows, Table, job_tables
from amsfl.engines.contract import Ahead, Models, Results, Vectors, Work
from amsfl.engines.devices import Program
from amsfl.engines.evaluate import evaluator
from amsfl.engines.task import Task, check_fits, lane_bytes, room_for, with_room
from amsfl.methods import Federation, Method
from amsfl.portable.network import count_operations

CORES = 2  # that a trial's waves are cut for, however many there are
FEW = 1024  # jobs whose lanes cost a GPU hardly more than half as many
COARSE = (64, 512, FEW)  # numbers of lanes of light clients
LANES = 16_384  # of a GPU's wave at most, however small a client is
WIDEST = 7  # of a CPU's: beyond, little is gained, and XLA sums eight lanes in another order
CALLS = 0.7e6  # the arithmetic (flops) that would take as long as the calls of a step
HARDLY = 0.1  # of a step: calls that are not worth lanes to share them
SURELY = 1.2  # times as long as one by one: jobs too unequal to share a wave


Wave = tuple[Array, list[int]]  # jobs among all that are asked for, -1: an empty place; whose sums they are


class JaxEngine:
    """Engine (see contract.Engine)."""

    def __init__(
        self,
        task: Task,
        federation: Federation,
        batch: int,
        readings: bool = False,
        cohort: int | None = None,
        workers: int | None = None,
    ):
        self.task, self.federation, self.readings = task, federation, readings
        clients = task.shards.size.shape[1]
        check_fits(task, federation.method, cohort)
        self.devices = devices.chosen()
        self.cpu = self.devices[0].platform == "cpu"
        self.workers = workers or (devices.cores() if self.cpu else len(self.devices))
        self.overhead, widest = costs_of_a_step(task, batch)
        self.light = widest > 1
        self.coarse = self.light and len(task.seeds) > 1  # sizes of a GPU's programs
        if self.cpu:
            self.lanes = width(-(-(cohort or clients) // CORES), self.overhead, widest)
        else:
            self.lanes = room_for(lane_bytes(task, federation, batch), LANES)
        self.rows = [jax.device_put((task.x, task.y), device) for device in self.devices]
        order = np.stack([with_room(each, np.int32) for each in task.shards.order])  # of all, or of one
        self._order = cache(lambda device, which: jax.device_put(order[which], self.devices[device]))
        as_arguments(federation.method)
        self.method: Method = jax.tree.map(partial(np.asarray, dtype=task.dtype), federation.method)
        self._tables = job_tables(task, batch, federation.private_rows is not None)
        whole = task if federation.private_rows else task.bare  # private steps' loop is as long as the rows
        bare = federation._replace(method=Method())
        self._wave, self._several = programs(whole, bare, batch, readings, self.light)
        self._compiled = set[Any]()
        # several GPUs share a batch's waves, and a CPU's workers a round's: they meet after every round
        self.ahead = None if self.cpu or len(self.devices) > 1 else self.several
        self._pool = ThreadPoolExecutor(self.workers)
        self.evaluate = evaluator(task, self._pool)

    def work(self, asked: Sequence[Work]) -> list[Results]:
        """Whose uploads are wanted one by one is computed apart from those who want a sum."""
        found = dict[int, Results]()
        for one_by_one in (False, True):
            some = [work for work in asked if (work.shares is None) == one_by_one]
            if some:
                waves, table = self._waves(some), self._tables(some)
                ends = np.cumsum([len(w.client) for w in some])
                kept = [
                    np.concatenate(part) for part in zip(*((w.state, w.memory) for w in some), strict=True)
                ]
                calls = [self._call(some, ends, table, kept, nth, wave) for nth, wave in enumerate(waves)]
                found |= collect(some, ends, waves, self._run(calls, one_by_one))
        return [found[work.trial] for work in asked]

    def several(self, asked: Sequence[Ahead]) -> list[Vectors]:
        """See contract.Engine.ahead."""
        found: list[Any] = [None] * len(asked)
        for places in several_rounds.side_by_side(asked, self.lanes):
            last = asked[places[-1]]  # a few programs serve any number of trials: others do no steps
            idle = [last._replace(steps=0 * last.steps)] * (rounded(len(places), self.coarse) - len(places))
            some = [*(asked[place] for place in places), *idle]
            some = [each._replace(begin=each.begin + place) for place, each in enumerate(some)]
            vectors = Vectors(*map(np.stack, zip(*(each.vectors for each in some), strict=True)))
            plan, rows = (
                several_rounds.planned(some, self._tables(some)),
                (*self.rows[0], self._order(0, ...)),
            )
            rounds = np.int32(len(some[0].client))
            moved = jax.tree.map(np.array, self._several(self.method, rows, vectors, plan, rounds))
            for nth, place in enumerate(places):
                found[place] = Vectors(*(part[nth] for part in moved))
        return found

    def _waves(self, asked: Sequence[Work]) -> list[Wave]:
        if not self.cpu:
            return side_by_side(asked, self.lanes, len(self.devices), self.coarse)
        waves, begin = list[Wave](), 0
        for place, work in enumerate(asked):
            for jobs in cut(work.steps, self.lanes, self.overhead):
                waves.append((np.where(jobs < 0, -1, jobs + begin), [place]))
            begin += len(work.client)
        return waves

    def _call(
        self, asked: Sequence[Work], ends: Array, table: Table, kept: Sequence[Array], nth: int, wave: Wave
    ) -> tuple[tuple[Hashable, ...], tuple[Tree, ...]]:
        """What a wave's program is called with, behind what tells its shapes from others'."""
        jobs, of = wave
        used, place = jobs >= 0, np.maximum(jobs, 0)
        integers, floats, _ = own = table[0][place], table[1][place], table[2][place]
        if not used.all():
            integers[~used, STEPS], floats[~used, SHARE] = 0, 0
        lanes = len(place)
        if self.cpu or (len(of) == 1 and not self.coarse):
            work = asked[of[0]]
            mine = np.where(used, place - (ends[of[0]] - len(work.client)), 0)
            models = work.models
            if 1 < len(models.anchor) != lanes:  # one program for one model, and one for many
                models = Models(*(part[work.begin[mine]] for part in models))
                integers[:, BEGIN] = np.arange(lanes)
            sums = np.where(used, np.arange(lanes), -1)[None].astype(np.int32)
        else:
            owner = np.searchsorted(ends, place, "right")
            models, shift = join_models([asked[trial].models for trial in of], self.coarse)
            integers[:, BEGIN] += shift[np.searchsorted(of, owner)]
            sums = members(wave, owner, self.coarse)
        (state, memory), device = (part[place] for part in kept), nth % len(self.rows)
        which: Any = ...
        if self.cpu:  # its wave is of one trial: one program for any number of them
            which, integers[:, TRIAL] = (asked[of[0]].trial, None), 0
        rows = *self.rows[device], self._order(device, which)
        shapes = device, lanes, len(models.anchor), sums.shape
        return shapes, (self.method, rows, models, state, memory, own, sums)

    def _run(
        self, calls: Sequence[tuple[tuple[Any, ...], tuple[Tree, ...]]], one_by_one: bool
    ) -> list[Results]:
        """All calls, as many at once as there are workers; what was never compiled runs by itself first."""
        results: list[Any] = [None] * len(calls)
        wide = bool(jax.config.read("jax_enable_x64"))
        products = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]  # made at run time

        def run(queue: Iterable[int]) -> None:
            with jax.enable_x64(wide), jax.default_matmul_precision(products):  # which jax keeps by thread
                for nth in queue:  # whoever is free takes the next
                    results[nth] = self._wave(*calls[nth][1])

        ready = []
        for nth, (shapes, _) in enumerate(calls):
            if shapes in self._compiled:
                ready.append(nth)
            else:
                run([nth])
                self._compiled.add(shapes)
        queue = iter(ready)
        others = [self._pool.submit(run, queue) for _ in range(min(self.workers, len(ready)) - 1)]
        run(queue)
        for other in others:
            other.result()
        for nth, (each, totals) in enumerate(results):  # what nobody asked for stays on a GPU
            wanted = each if one_by_one else each._replace(uploads=totals)
            results[nth] = jax.tree.map(np.asarray, wanted)
        return results


@cache
def _registered(kind: Any) -> None:
    jax.tree_util.register_dataclass(kind)


def as_arguments(method: Any) -> None:
    """Let jax take a method's numbers as a program's arguments, and those of what is inside of it."""
    kind: Any = type(method)
    _registered(kind)
    for each in fields(method):
        if is_dataclass(inner := getattr(method, each.name)):
            as_arguments(inner)


@devices.kept
def programs(
    task: Task, federation: Federation, batch: int, readings: bool, light: bool
) -> tuple[Program, Program]:
    """Of a wave and of several rounds; methods are arguments."""
    wave = wave_program(task, federation, batch, readings)
    return devices.jit(wave, light), several_rounds.program(wave)


def wave_program(task: Task, federation: Federation, batch: int, readings: bool) -> Program:
    """wave(method, rows, models, state, memory, table, sums) -> Results, [lanes, ...], and the uploads' sums
    of `sums` [sums, lanes at most].

    The method's numbers are arguments, so that another mu is not another program.
    """
    private = None
    if federation.private_rows is not None:
        private = private_gradients.gradient(task, federation.private_rows, batch)

    def wave(
        method: Method, rows: Rows, models: Models, state: Array, memory: Array, table: Table, sums: Array
    ) -> tuple[Results, Upload]:
        client = client_program.program(task, federation._replace(method=method), batch, readings, private)
        jobs, share = client_program.jobs_of(table, state, memory)
        longest = jobs.steps.max()

        def one(job: ClientJob) -> Results:
            own = Models(*(part[0] if len(part) == 1 else part[job.begin] for part in models))
            return client(job, own, rows, longest)

        if len(share) == 1:  # its loop ends by itself, with no lane to mask
            alone = one(jax.tree.map(lambda part: part[0], jobs))
            done = jax.tree.map(lambda part: part[None], alone)
        else:
            done = jax.vmap(one)(jobs)
        return done, summed(done.uploads, share, sums)

    return wave


def summed(uploads: Upload, share: Array, sums: Array) -> Upload:
    """Every sum takes its lanes one after another: a scatter with equal indices has no order on a GPU."""

    def add(nth: Number, total: Upload) -> Upload:
        lane = sums[:, nth]
        used, place = lane >= 0, jnp.maximum(lane, 0)

        def added(whole: jax.Array, part: jax.Array) -> jax.Array:
            wide = (..., *[None] * (part.ndim - 1))
            return whole + jnp.where(used[wide], share[place][wide] * part[place], 0)

        return Upload(*map(added, total, uploads))

    nothing = Upload(*(jnp.zeros((len(sums), *part.shape[1:]), part.dtype) for part in uploads))
    total: Upload = jax.lax.fori_loop(0, sums.shape[1], add, nothing)
    return total


def cut(steps: Array, lanes: int, overhead: float) -> list[Array]:
    """A trial's jobs in waves of `lanes`, neighbours in length, the longest first; one by one where these
    are too unequal to share. The last wave is filled up: every width is a program, and compiling one takes
    longer than the empty lanes of a thousand rounds."""
    order = np.argsort(-steps, kind="stable")
    lengths = steps[order]
    shared = lengths[::lanes].sum() * (lanes + overhead)
    if lanes == 1 or len(steps) == 1 or shared > SURELY * lengths.sum() * (1 + overhead):
        lanes = 1
    order = np.concatenate([order, np.full(-len(order) % lanes, -1)])
    return [order[place : place + lanes] for place in range(0, len(order), lanes)]


def side_by_side(asked: Sequence[Work], most: int, devices_: int, coarse: bool) -> list[Wave]:
    """All trials' jobs in as few waves as there is room for, the longest first; shapes that come again."""
    steps = np.concatenate([work.steps for work in asked])
    owner = np.repeat(np.arange(len(asked)), [len(work.client) for work in asked])
    order = np.argsort(-steps, kind="stable")
    lanes = min(most, rounded(-(-len(order) // devices_), coarse))
    order = np.concatenate([order, np.full(-len(order) % lanes, -1)])
    waves = order.reshape(-1, lanes)
    return [(jobs, np.unique(owner[jobs[jobs >= 0]]).tolist()) for jobs in waves]


def rounded(count: int, coarse: bool) -> int:
    """Up to a power of two, or to 64, 512 or 1024, of more than FEW an eighth more at most: a few programs
    serve any number, and each takes longer to compile than many a run."""
    grain = 2 ** max(0, count.bit_length() - 4)
    if count <= FEW:
        grain = next(size for size in COARSE if size >= count) if coarse else 2 ** (count - 1).bit_length()
    return int(-(-count // grain) * grain)


def members(wave: Wave, owner: Array, coarse: bool) -> Array:
    """Of every sum its lanes in order, -1 for none."""
    jobs, of = wave
    used = np.flatnonzero(jobs >= 0)
    where = np.searchsorted(of, owner[used])
    order = np.argsort(where, kind="stable")
    where = where[order]
    nth = np.arange(len(where)) - np.searchsorted(where, where)
    lanes = np.full((rounded(len(of), coarse), int(nth.max()) + 1), -1, np.int32)
    lanes[where, nth] = used[order]
    return lanes


def join_models(each: Sequence[Models], coarse: bool) -> tuple[Models, Array]:
    """Several trials' models as one, filled up to a usual number, and where each trial's begin."""
    counts = [len(models.anchor) for models in each]
    more = rounded(sum(counts), coarse) - sum(counts)
    parts = zip(*each, strict=True)
    whole = Models(*(np.concatenate([*part, np.repeat(part[0][:1], more, 0)]) for part in parts))
    return whole, np.cumsum(counts) - counts


def collect(
    asked: Sequence[Work], ends: Array, waves: Sequence[Wave], found: Sequence[Results]
) -> dict[int, Results]:
    """Every trial's results from the waves that its jobs were in."""
    jobs = np.concatenate([jobs for jobs, _ in waves])
    back = np.argsort(jobs, kind="stable")[len(jobs) - int(ends[-1]) :]  # where each job's row is
    sums = asked[0].shares is not None
    parts = zip(*(each[1:] if sums else (*each[1:], *each.uploads) for each in found), strict=True)
    rows = [np.concatenate(part)[back] for part in parts]
    totals, results = dict[int, Upload](), dict[int, Results]()
    for (_, of), result in zip(waves, found, strict=True):
        for part, place in zip(zip(*result.uploads, strict=True), of if sums else (), strict=False):
            totals[place] = Upload(*(map(np.add, totals[place], part) if place in totals else part))
    for place, (work, end) in enumerate(zip(asked, ends.tolist(), strict=True)):
        state, memory, reading, *uploads = (part[end - len(work.client) : end] for part in rows)
        results[work.trial] = Results(totals[place] if sums else Upload(*uploads), state, memory, reading)
    return results


def width(jobs: int, overhead: float, widest: int) -> int:
    """The best number of lanes for so many jobs of equal length on one core."""
    return min(range(1, widest + 1), key=lambda lanes: -(-jobs // lanes) * (lanes + overhead))


def costs_of_a_step(task: Task, batch: int) -> tuple[float, int]:
    """On a CPU core: a step's cost besides its arithmetic, in steps of one lane, and how wide waves may be.

    A step is some 30 calls of compiled code, whatever they do, which several lanes share: in jobs A and B of
    benchmarks/ a lane's step takes 1.16 and 1.23 times as long alone as among five, both cores busy.
    XLA's own convolutions of several lanes, each with its own kernels, are far slower than one after another.
    Where calls hardly count, lanes only crowd each other out of the cache: jobs C, E and F take about
    1.15 times as long among five as alone.
    """
    convolves = any(leaf.ndim > 2 for leaf in jax.tree.leaves(task.shapes))
    forward = max(2 * task.dim, count_operations(task.model.layers))
    overhead = min(1.0, CALLS / (3 * batch * forward))
    return overhead, 1 if convolves or overhead < HARDLY else WIDEST
