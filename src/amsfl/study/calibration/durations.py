"""How long rounds will be: the simulator's own client conditions and event queue, without any model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from amsfl.clock import ClientConditions
from amsfl.clock.sites import Floats
from amsfl.core.records import Array
from amsfl.simulation import event_queue as queue

if TYPE_CHECKING:
    from amsfl.study.calibration.fit import FittedSites
    from amsfl.study.calibration.timings import RunTimings

GradientsByClient = dict[int, int]  # client -> gradients


def durations(
    speeds: "FittedSites", run: "RunTimings", wanted: Sequence[GradientsByClient], seed: int
) -> Floats:
    """Seconds of each of these rounds, in which `wanted` says who works on how much."""
    return _whole(speeds, wanted, seed) if run.lags is None else _overlapping(speeds, run, wanted, seed)


def _trips(
    speeds: "FittedSites", who: Array, numbers: Array, gradients: Array, seed: int
) -> tuple[Floats, Array]:
    """Seconds of each client's round, and whether it comes to nothing."""
    conditions = ClientConditions(speeds.jitter if speeds.jitter.any() else None, speeds.failure)
    work = speeds.step_seconds[who] * gradients
    return conditions.trips(seed, who, numbers, np.zeros(len(who)), work, speeds.latency[who])


def _whole(speeds: "FittedSites", wanted: Sequence[GradientsByClient], seed: int) -> Floats:
    """Rounds that wait for all have nothing to do with each other: all of them at once.

    `wanted` names those whose work came, so nobody fails here.
    """
    speeds = speeds._replace(failure=None)
    jobs = [(who, n, count) for n, todo in enumerate(wanted) for who, count in sorted(todo.items())]
    who, numbers, gradients = np.array(jobs, np.int64).T
    return np.maximum.reduceat(
        _trips(speeds, who, numbers, gradients, seed)[0], np.unique(numbers, return_index=True)[1]
    )


def _overlapping(
    speeds: "FittedSites", run: "RunTimings", wanted: Sequence[GradientsByClient], seed: int
) -> Floats:
    """The queue from its beginning, move by move."""
    events, now, moves = queue.EventQueue(), 0.0, list[float]()
    for version, todo in enumerate(wanted):

        def invite(now: float, version: int = version, todo: GradientsByClient = todo) -> Array:
            busy = {*events.jobs["client"].tolist()}
            who = np.array([client for client in sorted(todo) if client not in busy], np.int64)
            jobs = np.zeros(len(who), queue.JOB)
            if len(who):
                jobs["client"], jobs["version"], jobs["started"] = who, version, now
                jobs["number"] = queue.next_numbers(events, who, version)
                gradients = np.array([todo[int(client)] for client in who])
                seconds, jobs["lost"] = _trips(speeds, who, jobs["number"], gradients, seed)
                jobs["arrives"] = now + seconds
            return jobs

        move = queue.next_move(events, now, version, run.end, invite)
        moves.append(move.seconds - now)
        now = move.seconds
    return np.array(moves)
