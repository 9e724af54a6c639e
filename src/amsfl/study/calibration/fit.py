"""Seconds a step, latency, jitter, failures and absences of every client, from its recorded rounds; and how
long rounds will be with such clients, by the simulator's own event queue, without any model.

Medians, so that one bad round moves nothing. The server's own time between two rounds (it scores, writes and
asks who is available) is fitted last, so that simulated rounds are as long as the recorded ones, and is added
to every client's latency: the record of a round cannot tell the two apart.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl.clock import ClientConditions
from amsfl.clock.sites import COLUMNS, LARGEST, NAME, SMALLEST, Floats
from amsfl.core import UserError
from amsfl.core.records import Array
from amsfl.simulation import event_queue as queue
from amsfl.study.calibration.timings import ClientRound, RunTimings, read

SIGMAS = 1.4826  # of a normal law, in median absolute deviations
CUT = 0.1  # of the rounds at either end, before a mean
DRAWS = 8  # of all rounds' luck, to know how long they are expected to be
JITTER = 10.0  # at most
DUST = 1e-9  # of rounding: less jitter than this is none
GradientsByClient = dict[int, int]  # client -> gradients


class FittedSites(NamedTuple):
    """One entry a client; None where nothing of the kind was seen."""

    names: tuple[str, ...]
    step_seconds: Floats
    latency: Floats
    jitter: Floats | None
    failure: Floats | None = None
    on_seconds: Floats | None = None
    off_seconds: Floats | None = None
    weight: Floats | None = None
    server_seconds: float = 0.0  # of the latency: what the server takes a round


def calibrate(folders: Sequence[Path]) -> FittedSites:
    """A table of sites from the records of runs with the same clients."""
    runs = [read(folder)[0] for folder in folders]
    for folder, other in zip(folders, runs, strict=True):
        if other.names != runs[0].names:
            raise UserError(
                f"{str(folder)!r} has the clients {_listed(other.names)}, {str(folders[0])!r} has "
                f"{_listed(runs[0].names)}; calibrate by runs of the same clients."
            )
    return fit(runs)


def fit(runs: Sequence[RunTimings], rounds: Sequence[Sequence[int]] | None = None) -> FittedSites:
    """By these rounds of each run, counted from 0, some perhaps more than once; by default all of them."""
    places = [list(range(len(run.moves))) for run in runs] if rounds is None else [list(r) for r in rounds]
    names, mine = runs[0].names, [list[ClientRound]() for _ in runs[0].names]
    for run, some in zip(runs, places, strict=True):
        by_round: dict[int, list[ClientRound]] = {}
        for trip in run.trips:
            by_round.setdefault(trip.round - 1, []).append(trip)
        for trip in (trip for place in some for trip in by_round.get(place, ())):
            mine[trip.client].append(trip)
    silent = [name for name, trips in zip(names, mine, strict=True) if not trips]
    if silent:
        raise UserError(
            f"No work of client {silent[0]!r} is on record in these rounds; calibrate by a longer run, or by "
            "one more that it took part in."
        )
    alone = [_client(trips) for trips in mine]
    step, rest, jitter = (np.array(column) for column in zip(*alone, strict=True))
    own = FittedSites(names, step, rest, jitter if jitter.any() else None)
    taken = np.mean([_server(own, run, some) for run, some in zip(runs, places, strict=True)])
    # rounds that were shorter than expected by chance must not make fast clients faster than they are
    server = max(float(taken), 0.0)
    on, off = _presence(runs, places)
    return own._replace(
        latency=np.clip(rest + server, 0.0, LARGEST),
        server_seconds=server,
        failure=_failure(runs, places),
        weight=next((np.array(run.weights) for run in runs if run.weights is not None), None),
        on_seconds=on,
        off_seconds=off,
    )


def as_csv(fitted: FittedSites) -> str:
    """The CSV that `amsfl run --profile`, `amsfl plan` and `amsfl deploy --profile` take."""
    columns = {name: column for name in COLUMNS if (column := getattr(fitted, name, None)) is not None}
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([NAME, *columns])
    for place, name in enumerate(fitted.names):
        writer.writerow([name, *(f"{float(column[place]):.6g}" for column in columns.values())])
    return file.getvalue()


def _client(trips: Sequence[ClientRound]) -> tuple[float, float, float]:
    """Seconds a step and of the rest of a round, and by how much they vary together.

    Of a lognormal factor with a small sigma on each of w and b, the sum's deviation is sigma sqrt(w² + b²).
    """
    gradients = np.array([trip.gradients for trip in trips], float)
    seconds = np.array([trip.seconds for trip in trips])
    # a client's own number, at most what the server measured
    own = np.minimum([trip.step for trip in trips], seconds / gradients)
    step = max(float(np.median(own)), SMALLEST)
    rest = max(float(np.median(seconds - gradients * own)), 0.0)
    off = (seconds - gradients * step - rest) / np.maximum(np.hypot(gradients * step, rest), SMALLEST)
    sigma = SIGMAS * float(np.median(np.abs(off - np.median(off))))
    return step, rest, min(sigma, JITTER) if sigma > DUST else 0.0


def _server(own: FittedSites, run: RunTimings, places: Sequence[int]) -> float:
    """What the server takes a round: seen where moves and replies have one clock, else what is missing."""
    if run.lags is not None:
        return float(np.median([run.lags[place] for place in places]))
    once = sorted({*places})
    wanted = gradients_asked(run, once)
    expected = np.mean([durations(own, run, wanted, seed) for seed in range(DRAWS)], axis=0)
    took = np.diff([0.0, *run.moves])
    missing = np.sort([took[place] - expected[once.index(place)] for place in places])
    cut = int(CUT * len(missing))
    return float(np.mean(missing[cut : len(missing) - cut]))


def gradients_asked(run: RunTimings, places: Sequence[int]) -> list[GradientsByClient]:
    """Who was asked for how many gradients in these rounds; where rounds overlap, everybody for its usual."""
    if run.lags is None:
        by_round: dict[int, GradientsByClient] = {place: {} for place in places}
        for trip in run.trips:
            if trip.round - 1 in by_round:
                by_round[trip.round - 1][trip.client] = trip.gradients
        return [by_round[place] for place in places]
    every: dict[int, list[int]] = {}
    for trip in run.trips:
        every.setdefault(trip.client, []).append(trip.gradients)
    usual = {who: int(np.median(mine)) for who, mine in every.items()}
    return [usual for _ in places]


def _failure(runs: Sequence[RunTimings], places: Sequence[Sequence[int]]) -> Floats | None:
    tried, failed = np.zeros(runs[0].clients), np.zeros(runs[0].clients)
    for run, some in zip(runs, places, strict=True):
        for place in some:
            np.add.at(tried, run.tried[place], 1)
            np.add.at(failed, run.failed[place], 1)
    return failed / np.maximum(tried, 1) if failed.any() else None


def _presence(
    runs: Sequence[RunTimings], places: Sequence[Sequence[int]]
) -> tuple[Floats | None, Floats | None]:
    """Mean seconds there and away: the time spent so over how often it came to an end."""
    clients = runs[0].clients
    on, off, left, back = (np.zeros(clients) for _ in range(4))
    for run, some in zip(runs, places, strict=True):
        took, was = np.diff([0.0, *run.moves]), np.zeros(clients, bool)
        for nth, place in enumerate(some):
            now = np.zeros(clients, bool)
            now[run.away[place]] = True
            on, off = on + took[place] * ~now, off + took[place] * now
            if nth:
                left, back = left + (now & ~was), back + (was & ~now)
            was = now
    if not off.any():
        return None, None
    # who was never seen to leave stays as long as it was seen; 0 seconds away is never away
    stays = np.clip(on / np.maximum(left, 1), SMALLEST, LARGEST)
    return stays, np.clip(off / np.maximum(back, 1), 0.0, LARGEST)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def durations(speeds: FittedSites, run: RunTimings, wanted: Sequence[GradientsByClient], seed: int) -> Floats:
    """Seconds of each of these rounds, in which `wanted` says who works on how much."""
    return _whole(speeds, wanted, seed) if run.lags is None else _overlapping(speeds, run, wanted, seed)


def _trips(
    speeds: FittedSites, who: Array, numbers: Array, gradients: Array, seed: int
) -> tuple[Floats, Array]:
    """Seconds of each client's round, and whether it comes to nothing."""
    conditions = ClientConditions(speeds.jitter, speeds.failure)
    work = speeds.step_seconds[who] * gradients
    return conditions.trips(seed, who, numbers, np.zeros(len(who)), work, speeds.latency[who])


def _whole(speeds: FittedSites, wanted: Sequence[GradientsByClient], seed: int) -> Floats:
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
    speeds: FittedSites, run: RunTimings, wanted: Sequence[GradientsByClient], seed: int
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
