"""Packing: which job runs on which device, beside which others, and when. Plain numpy.

Jobs (one client's round in one trial) of like length share a wave of `lanes`, which run in lockstep;
waves go to the device with the least work so far. So the cost follows the sum of the steps, not
clients times the longest: with one lane it is exactly the sum, with more the waste is what jobs
sorted by length differ within a wave.
"""

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


def _balance(lengths: list[int], devices: int) -> Any:
    """The device of each wave: the least loaded one, the lowest number among equals."""
    heap = [(0, device) for device in range(devices)]
    where = np.empty(len(lengths), np.int64)
    for index, length in enumerate(lengths):  # plain numbers and a heap: a third of a microsecond a wave
        load, device = heap[0]
        where[index] = device
        heapreplace(heap, (load + length, device))
    return where
