"""Packing: which job runs on which device, beside which others, and when; and how many lanes there are.

Jobs (one client's round in one trial) of like length share a wave of `lanes`, which run in lockstep;
waves go to the least loaded worker. So the cost follows the sum of the steps, not clients times the longest:
with one lane it is exactly the sum, with more the waste is what jobs sorted by length differ within a wave.

Sums of floats depend on their order, and a job's bits on whether it runs alone or among others. On a CPU
(`by_trial`) both follow from the trial's own plan: its waves are packed as if it ran by itself on two cores,
and every wave adds to one of a few slots in a fixed order. So neither the cores of a machine nor the trials
beside it change a bit; the cores only say which slots are worked on side by side.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heapreplace
from typing import NamedTuple, TypedDict, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from amsfl.core.records import Array
from amsfl.engines import devices
from amsfl.engines.memory import lane_bytes, room_for
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.portable.network import count_operations

Made = TypeVar("Made")
CORES = 2  # that a trial's waves are packed for, however many there are
FEW = 16  # lanes whose uploads are added row by row
SLOTS = 8  # partial sums of a trial: as many cores can work on one trial at once
CALLS = 0.7e6  # the arithmetic (flops) that would take as long as the calls of a step
HARDLY = 0.1  # of a step: calls that are not worth lanes to share them
LANES = 16_384  # on a GPU at most, however small a client is
WIDEST = 7  # lanes on a CPU core: beyond, little is gained, and XLA sums eight lanes in another order


def of_last(make: Callable[..., Made]) -> Callable[..., Made]:
    """The function of arrays, which keeps what it last made: many plans never change."""
    last: tuple[bytes, ...] | None = None
    kept: Made

    def call(*plan: Array) -> Made:
        nonlocal last, kept
        asked = tuple(part.tobytes() for part in plan)
        if asked != last:
            last, kept = asked, make(*plan)
        return kept

    return call


class Queue(NamedTuple):
    jobs: Array  # int32 [devices, capacity, lanes] job numbers, -1 for none
    slots: Array  # int32 [devices, capacity, lanes] which sum each job's upload is added to
    waves: Array  # int32 [devices] how many of the capacity are used
    lanes: Array  # int32 [devices, capacity, sums, most] which lanes add to each sum, -1 for none; or no sums


class SlotQueue(NamedTuple):
    """Waves of one width that one worker runs one after another."""

    slot: int
    waves: list[Array]  # of job numbers
    load: float

    @property
    def lanes(self) -> int:
        return len(self.waves[0])


def pack(steps: Array, devices: int, lanes: int) -> Queue:
    """Longest first, trials side by side: waves of neighbours in length, each to the least loaded device."""
    flat = np.asarray(steps).ravel()
    order = np.argsort(-flat, kind="stable")
    order = order[flat[order] > 0]
    capacity = -(-len(flat) // lanes)
    waves = np.full((-(-len(order) // lanes), lanes), -1, np.int32)
    waves.ravel()[: len(order)] = order
    where = np.array(_shared_out(flat[order[::lanes]].tolist(), devices)[0], int)
    jobs = np.full((devices, capacity, lanes), -1, np.int32)
    used = np.bincount(where, minlength=devices).astype(np.int32)
    for device in range(devices):
        jobs[device, : used[device]] = waves[where == device]
    slots = np.maximum(jobs, 0) // np.shape(steps)[1]
    return Queue(jobs, slots, used, members(jobs, slots, *np.shape(steps)))


def members(jobs: Array, slots: Array, sums: int, cohort: int) -> Array:
    """Of every wave and sum, its lanes in order; none where lanes are few and go one by one."""
    *waves, lanes = jobs.shape
    if lanes <= FEW:
        return np.zeros((*waves, 0, 0), np.int32)
    lanes_of = np.full((*waves, sums, min(cohort, lanes)), -1, np.int32)
    *place, lane = np.nonzero(jobs >= 0)
    key = np.ravel_multi_index((*place, slots[(*place, lane)]), (*waves, sums))
    order = np.argsort(key, kind="stable")
    key = key[order]
    nth = np.arange(len(key)) - np.searchsorted(key, key)  # among those of its sum
    lanes_of.reshape(-1, lanes_of.shape[-1])[key, nth] = lane[order]
    return lanes_of


def split_over(arrays: Iterable[Array], workers: int) -> list[tuple[Array, ...]]:
    """Each worker's part of every array: neighbours along the first axis, which the workers divide."""
    return list(zip(*(np.split(array, workers) for array in arrays), strict=True))


def pack_for_workers(steps: Array, devices: int, workers: int, lanes: int) -> list[list[Queue]]:
    """Every worker's one queue on so many devices, all of `lanes`; a trial has one slot."""
    return [[Queue(*part)] for part in split_over(pack(steps, devices * workers, lanes), workers)]


def pack_by_trial(steps: Array, workers: int, slots: int, overhead: float, widest: int) -> list[list[Queue]]:
    """Every worker's queues, one a width, widest first; a trial has so many slots.

    `overhead` steps of one lane come on top of a step of any width.
    """
    steps = np.asarray(steps)
    units = [
        unit for trial, plan in enumerate(steps) for unit in trial_units(plan, trial, slots, overhead, widest)
    ]
    units.sort(key=lambda unit: -unit.load)
    where, _ = _shared_out([unit.load for unit in units], workers)
    mine: list[list[SlotQueue]] = [[] for _ in range(workers)]
    for unit, worker in zip(units, where, strict=True):
        mine[worker].append(unit)
    return [_queues(each, steps.shape) for each in mine]


def trial_units(plan: Array, trial: int, slots: int, overhead: float, widest: int) -> list[SlotQueue]:
    """A trial's jobs, one by one or as wide as suits equal ones, whichever is cheaper.

    Where jobs do not come out even, the last wave is narrower.
    """
    order = np.argsort(-plan, kind="stable").astype(np.int32)
    order = order[plan[order] > 0]
    wide = width(-(-len(plan) // CORES), overhead, widest)
    packings = []
    for lanes in sorted({1, wide}):
        waves = [order[begin : begin + lanes] for begin in range(0, len(order), lanes)]
        loads = [float(plan[wave[0]] * (len(wave) + overhead)) for wave in waves]
        packings.append((max(_shared_out(loads, CORES)[1]), waves, loads))
    _, waves, loads = min(packings, key=lambda packing: packing[0])
    narrow = len(waves) > 1 and len(waves[-1]) < len(waves[0])  # its slot is its own: widths do not mix
    even = len(waves) - narrow
    where, total = _shared_out(loads[:even], min(even, max(slots - narrow, 1)))
    units = [SlotQueue(trial * slots + place, [], load) for place, load in enumerate(total)]
    for wave, place in zip(waves, where, strict=False):
        units[place].waves.append(trial * len(plan) + wave)
    if narrow:
        units.append(SlotQueue(trial * slots + len(units), [trial * len(plan) + waves[-1]], loads[-1]))
    return units


def width(jobs: int, overhead: float, widest: int) -> int:
    """The best number of lanes for so many jobs of equal length on one core."""
    return min(range(1, widest + 1), key=lambda lanes: -(-jobs // lanes) * (lanes + overhead))


def _queues(units: Sequence[SlotQueue], shape: tuple[int, int]) -> list[Queue]:
    """A worker's units as arrays whose shapes follow from their width alone: one compilation each."""
    queues = []
    for lanes in sorted({unit.lanes for unit in units}, reverse=True):
        rows = [(wave, unit.slot) for unit in units if unit.lanes == lanes for wave in unit.waves]
        room = (1, shape[0] * -(-shape[1] // lanes), lanes)
        jobs, slots = np.full(room, -1, np.int32), np.zeros(room, np.int32)
        jobs[0, : len(rows)] = [wave for wave, _ in rows]
        slots[0, : len(rows)] = [[slot] * lanes for _, slot in rows]
        queues.append(Queue(jobs, slots, np.array([len(rows)], np.int32), members(jobs, slots, 0, 0)))
    return queues


def _shared_out(lengths: Sequence[float], places: int) -> tuple[list[int], list[float]]:
    """The place of each: the least loaded one, the lowest among equals; and what each place then has."""
    heap = [(0.0, place) for place in range(places)]
    where = []
    for length in lengths:  # plain numbers and a heap: a third of a microsecond a wave
        load, place = heap[0]
        where.append(place)
        heapreplace(heap, (load + length, place))
    return where, [load for load, _ in sorted(heap, key=lambda item: item[1])]


class JaxOptions(TypedDict, total=False):
    """What may be said of how the jax engine works; it chooses the rest."""

    lanes: int | None  # jobs in lockstep on each device
    mesh: Mesh | None  # the devices, of all processes (jax.distributed)
    cohort: int | None  # clients a round, for the check that their state fits
    workers: int | None  # calls side by side
    together: int | None  # jobs of a trial that `work` usually gets


class LaneChoice(NamedTuple):
    workers: int  # calls side by side
    slots: int  # sums of a trial
    pack: Callable[..., list[list[Queue]]]  # (steps, workers)
    async_shape: tuple[int, int]  # workers and lanes of jobs that begin from models of their own
    light: bool  # whether a step is calls more than arithmetic


def choose_lanes(task: Task, method: Method, batch: int, mesh: Mesh, options: JaxOptions) -> LaneChoice:
    """By what the options say, else by the devices, the task's memory and what a step costs."""
    trials, clients = task.shards.size.shape
    cohort, lanes = options.get("cohort") or clients, options.get("lanes")
    workers = options.get("workers") or devices.workers(mesh)
    together = options.get("together") or cohort
    overhead, widest = _widths(task, batch)
    fit = partial(room_for, lane_bytes(task, method, batch) / devices.parts(mesh), LANES)
    of_jobs = lanes or devices.default_lanes(mesh, trials * together, fit)
    async_shape = workers, of_jobs or width(-(-together // CORES), overhead, widest)
    lanes = lanes or devices.default_lanes(mesh, trials * cohort, fit)
    light = widest > 1
    if lanes:
        pack = partial(pack_for_workers, devices=devices.lanes(mesh), lanes=lanes)
        return LaneChoice(workers, 1, pack, async_shape, light)
    slots = min(SLOTS, cohort)
    pack = partial(pack_by_trial, slots=slots, overhead=overhead, widest=widest)
    return LaneChoice(min(workers, trials * slots), slots, pack, async_shape, light)  # more would be idle


def _widths(task: Task, batch: int) -> tuple[float, int]:
    """On a CPU core: a step's cost besides its arithmetic, in steps of one lane, and how wide queues may be.

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
    return overhead, 1 if convolves or overhead < HARDLY else WIDEST
