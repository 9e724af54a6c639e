"""Seconds a step, latency, jitter, failures and absences of every client, from its recorded rounds.

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
from amsfl.clock.profile import COLUMNS, LARGEST, NAME, SMALLEST, Floats
from amsfl.core import UserError
from amsfl.study.timings import ClientRound, RunTimings, timings_in

SIGMAS = 1.4826  # of a normal law, in median absolute deviations
CUT = 0.1  # of the rounds at either end, before a mean
DRAWS = 8  # of all rounds' luck, to know how long they are expected to be
JITTER = 10.0  # at most
DUST = 1e-9  # of rounding: less jitter than this is none


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
    runs = [timings_in(folder) for folder in folders]
    for folder, other in zip(folders, runs, strict=True):
        if other.names != runs[0].names:
            raise UserError(
                f"{str(folder)!r} has the clients {_listed(other.names)}, {str(folders[0])!r} has "
                f"{_listed(runs[0].names)}; calibrate by runs of the same clients."
            )
    return fit(runs)


def fit(runs: Sequence[RunTimings]) -> FittedSites:
    """From the rounds of all runs, which have the same clients."""
    names = runs[0].names
    mine: list[list[ClientRound]] = [[] for _ in names]
    for trip in (trip for run in runs for trip in run.trips):
        mine[trip.client].append(trip)
    silent = [name for name, trips in zip(names, mine, strict=True) if not trips]
    if silent:
        raise UserError(
            f"No work of client {silent[0]!r} is on record in these rounds; calibrate by a longer run, or by "
            "one more that it took part in."
        )
    step, rest, jitter = (np.array(column) for column in zip(*map(_client, mine), strict=True))
    own = FittedSites(names, step, rest, jitter if jitter.any() else None)
    # rounds that were shorter than expected by chance must not make fast clients faster than they are
    server = max(float(np.mean([_server(own, run) for run in runs])), 0.0)
    on, off = _presence(runs)
    return own._replace(
        latency=np.clip(rest + server, 0.0, LARGEST),
        server_seconds=server,
        failure=_failure(runs),
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


def _server(own: FittedSites, run: RunTimings) -> float:
    """What the server takes a round: seen where moves and replies have one clock, else what is missing."""
    if run.lags is not None:
        return float(np.median(run.lags))
    expected = np.mean([_round_seconds(own, run, seed) for seed in range(DRAWS)], axis=0)
    missing = np.sort(np.diff([0.0, *run.moves]) - expected)
    cut = int(CUT * len(missing))
    return float(np.mean(missing[cut : len(missing) - cut]))


def _round_seconds(own: FittedSites, run: RunTimings, seed: int) -> Floats:
    """How long rounds that wait for all are with such clients, of whom those worked whose work came."""
    jobs = sorted((trip.round - 1, trip.client, trip.gradients) for trip in run.trips)
    rounds, who, gradients = np.array(jobs, np.int64).T
    conditions, work = ClientConditions(own.jitter, None), own.step_seconds[who] * gradients
    seconds, _ = conditions.trips(seed, who, rounds, np.zeros(len(who)), work, own.latency[who])
    whole = np.zeros(len(run.moves))
    np.maximum.at(whole, rounds, seconds)
    return whole


def _failure(runs: Sequence[RunTimings]) -> Floats | None:
    tried, failed = np.zeros(runs[0].clients), np.zeros(runs[0].clients)
    for run in runs:
        for some, none in zip(run.tried, run.failed, strict=True):
            np.add.at(tried, some, 1)
            np.add.at(failed, none, 1)
    return failed / np.maximum(tried, 1) if failed.any() else None


def _presence(runs: Sequence[RunTimings]) -> tuple[Floats | None, Floats | None]:
    """Mean seconds there and away: the time spent so over how often it came to an end."""
    clients = runs[0].clients
    on, off, left, back = (np.zeros(clients) for _ in range(4))
    for run in runs:
        was = np.zeros(clients, bool)
        for nth, (took, away) in enumerate(zip(np.diff([0.0, *run.moves]), run.away, strict=True)):
            now = np.zeros(clients, bool)
            now[away] = True
            on, off = on + took * ~now, off + took * now
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
