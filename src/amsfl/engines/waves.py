"""Packing: which job runs on which device, beside which others, and when. Plain numpy.

Jobs (one client's round in one trial) of like length share a wave of `lanes`, which run in lockstep;
waves go to the device with the least work so far. So the cost follows the sum of the steps, not
clients times the longest: with one lane it is exactly the sum, with more the waste is what jobs
sorted by length differ within a wave.
"""

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
    jobs = np.full((devices, capacity, lanes), -1, np.int32)
    used = np.zeros(devices, np.int32)
    load = np.zeros(devices)
    for begin in range(0, len(order), lanes):
        wave = order[begin : begin + lanes]
        device = int(load.argmin())
        jobs[device, used[device], : len(wave)] = wave
        used[device] += 1
        load[device] += flat[wave[0]]
    return Queue(jobs, used)
