"""Packing: which job runs on which device, beside which others, and when. Plain numpy.

Jobs (one client's round in one trial) of like length share a wave of `lanes`, which run in lockstep;
waves go to the device with the least work so far. So the cost follows the sum of the steps, not
clients times the longest: with one lane it is exactly the sum, with more the waste is what jobs
sorted by length differ within a wave. On a CPU a step of several lanes costs less than several steps
of one, so `cheapest` weighs that gain against the waste, plan by plan.
"""

from collections.abc import Iterable
from heapq import heapreplace
from typing import Any, NamedTuple

import numpy as np


class Queue(NamedTuple):
    jobs: Any  # int32 [devices, capacity, lanes] job numbers, -1 for none
    waves: Any  # int32 [devices] how many of the capacity are used


def pack(steps: Any, devices: int, lanes: int) -> Queue:
    """Longest first: waves of neighbours in length, each to the least loaded device."""
    flat = np.asarray(steps).ravel()
    order = np.argsort(-flat, kind="stable")
    order = order[flat[order] > 0]
    capacity = -(-len(flat) // lanes)
    waves = np.full((-(-len(order) // lanes), lanes), -1, np.int32)
    waves.ravel()[: len(order)] = order
    where = _balance(flat[order[::lanes]].tolist(), devices)
    jobs = np.full((devices, capacity, lanes), -1, np.int32)
    used = np.bincount(where, minlength=devices).astype(np.int32)
    for device in range(devices):
        jobs[device, : used[device]] = waves[where == device]
    return Queue(jobs, used)


def dealt(arrays: Iterable[Any], workers: int) -> list[tuple[Any, ...]]:
    """Each worker's part of every array: neighbours along the first axis, which the workers divide."""
    return list(zip(*(np.split(array, workers) for array in arrays), strict=True))


def shares(steps: Any, devices: int, workers: int, lanes: int) -> list[Queue]:
    """Every worker's queue on so many devices, all of `lanes`."""
    return [Queue(*part) for part in dealt(pack(steps, devices * workers, lanes), workers)]


def cheapest(steps: Any, devices: int, workers: int, overhead: float, widest: int) -> list[Queue]:
    """Every worker's queue: jobs one by one, or as wide as suits equal ones, whichever is cheaper.

    Where jobs do not come out even, a worker with fewer gets a narrower queue. So there are three widths
    at most, whatever the plans of a run, and as many compilations.
    """
    jobs, places = np.size(steps), devices * workers
    wide, narrow = (width(each, overhead, widest) for each in (-(-jobs // places), jobs // places))
    packings = (shares(steps, devices, workers, lanes) for lanes in (1, wide))
    packed = min(packings, key=lambda queues: max(cost(queue, steps, overhead) for queue in queues))
    return [_trimmed(queue, narrow) for queue in packed]


def width(jobs: int, overhead: float, widest: int) -> int:
    """The best number of lanes for so many jobs of equal length on one device."""
    return min(range(1, widest + 1), key=lambda lanes: -(-jobs // lanes) * (lanes + overhead))


def cost(queue: Queue, steps: Any, overhead: float) -> float:
    """What its busiest device goes through, in steps of one lane; `overhead` of them come on top of any."""
    first = queue.jobs[:, :, 0]
    longest = np.where(first >= 0, np.asarray(steps).ravel()[first], 0)
    return float(longest.sum(1).max() * (queue.jobs.shape[2] + overhead))


def _trimmed(queue: Queue, lanes: int) -> Queue:
    """Without the lanes past `lanes`, if no wave uses them."""
    spare = (queue.jobs[:, :, lanes:] < 0).all()
    return queue._replace(jobs=queue.jobs[:, :, :lanes]) if spare else queue


def _balance(lengths: list[int], devices: int) -> Any:
    """The device of each wave: the least loaded one, the lowest number among equals."""
    heap = [(0, device) for device in range(devices)]
    where = np.empty(len(lengths), np.int64)
    for index, length in enumerate(lengths):  # plain numbers and a heap: a third of a microsecond a wave
        load, device = heap[0]
        where[index] = device
        heapreplace(heap, (load + length, device))
    return where
