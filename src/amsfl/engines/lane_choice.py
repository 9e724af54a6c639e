"""How many jobs of the jax engine run side by side, and how they are packed."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypedDict

import jax
from jax.sharding import Mesh

from amsfl.engines import devices
from amsfl.engines.memory import lane_bytes, room_for
from amsfl.engines.packing import CORES, SLOTS, Queue, pack_by_trial, pack_for_workers, width
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.portable.network import count_operations

CALLS = 0.7e6  # the arithmetic (flops) that would take as long as the calls of a step
HARDLY = 0.1  # of a step: calls that are not worth lanes to share them
LANES = 16_384  # on a GPU at most, however small a client is
WIDEST = 7  # lanes on a CPU core: beyond, little is gained, and XLA sums eight lanes in another order


class JaxOptions(TypedDict, total=False):
    """What may be said of how the jax engine works; it chooses the rest."""

    lanes: int | None  # jobs in lockstep on each device
    mesh: Mesh | None  # the devices, of all processes (jax.distributed)
    cohort: int | None  # clients a round, for the check that their state fits
    workers: int | None  # calls side by side
    together: int | None  # jobs of a trial that `work` usually gets
    max_span: int | None  # rounds that `span` takes at most; needs `lanes` and one worker
    kernels: bool | None  # whether a client's steps are one kernel (kernel.py)


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
