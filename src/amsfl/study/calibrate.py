"""Seconds a step, latency, jitter, failures and absences of every client, from its recorded rounds.

A real run's seconds are the server's own, from an order to its reply, and a client's word on one step; a
simulated one's are virtual. Medians, so that one bad round moves nothing. What a real server does besides (it
scores, writes and asks who is available) is added to every client's latency.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl.clock.profile import COLUMNS, LARGEST, NAME, SMALLEST, Floats
from amsfl.core import UserError, listed
from amsfl.record import RunRecord, read_run

FEWEST = 3  # rounds that say anything
SIGMAS = 1.4826  # of a normal law, in median absolute deviations
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


class TimedRound(NamedTuple):
    """What a round's record says of time; clients by their places in the table."""

    trips: list[tuple[int, int, float, float]]  # client, gradients, seconds, seconds of one step
    failed: list[int]  # whose work came to nothing: not for being late, nor for being away
    away: list[int]  # who could not be asked
    took: float
    server: float  # of that, besides clients' work


def calibrate(folders: Sequence[Path]) -> FittedSites:
    """A table of sites from the records of runs with the same clients."""
    runs = [read_run(folder) for folder in folders]
    for folder, run in zip(folders, runs, strict=True):
        if len(run.rounds) < FEWEST:
            raise UserError(
                f"The record {str(folder)!r} has {len(run.rounds)} rounds; to calibrate by, give one with at "
                f"least {FEWEST}."
            )
        if sorted(_names(run)) != sorted(_names(runs[0])):
            raise UserError(
                f"{str(folder)!r} has the clients {listed(_names(run), 5)}, {str(folders[0])!r} has "
                f"{listed(_names(runs[0]), 5)}; calibrate by runs of the same clients."
            )
    return fit(runs)


def fit(runs: Sequence[RunRecord]) -> FittedSites:
    """From the rounds of all runs, which have the same clients."""
    names = _names(runs[0])
    if _is_real(runs[0]):  # by their numbers, whoever was first to answer
        names = sorted(names, key=lambda name: (len(name), name))
    places = [np.array([names.index(name) for name in _names(run)]) for run in runs]
    timed = [_timed(run, mine) for run, mine in zip(runs, places, strict=True)]
    rounds = [each for some in timed for each in some]
    trips: list[list[tuple[int, float, float]]] = [[] for _ in names]
    for client, gradients, seconds, one in (trip for each in rounds for trip in each.trips):
        trips[client].append((gradients, seconds, one))
    silent = [name for name, mine in zip(names, trips, strict=True) if not mine]
    if silent:
        raise UserError(
            f"No work of client {silent[0]!r} is on record in these rounds; calibrate by a longer run, or by "
            "one more that it took part in."
        )
    step, rest, jitter = (np.array(column) for column in zip(*map(_client, trips), strict=True))
    server = float(np.median([each.server for each in rounds]))
    failed = np.bincount([who for each in rounds for who in each.failed], minlength=len(names))
    tried = failed + [len(mine) for mine in trips]
    on, off = _presence(timed, len(names))
    weights = (_weights(run, mine) for run, mine in zip(runs, places, strict=True))
    return FittedSites(
        tuple(names),
        step,
        np.clip(rest + server, 0.0, LARGEST),
        jitter if jitter.any() else None,
        failed / tried if failed.any() else None,
        on,
        off,
        next((each for each in weights if each is not None), None),
        server,
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


def _is_real(run: RunRecord) -> bool:
    return run.manifest.kind == "flower"


def _names(run: RunRecord) -> list[str]:
    """The clients', in the order of the record; their places where nobody named them, or not yet."""
    names = run.manifest.about.get("clients", {}).get("names")
    asked = (who for each in run.rounds for who in (*each.cohort, *each.plan.get("asked", ())))
    count = run.manifest.made_from.get("clients") or 1 + max(asked, default=-1)
    return list(names or map(str, range(count)))


def _timed(run: RunRecord, places: Floats) -> list[TimedRound]:
    """The rounds of a run; `places` are its clients' in the table."""
    real, whole = _is_real(run), max(len(each.plan.get("asked", ())) for each in run.rounds) == len(places)
    speeds = np.array(run.manifest.about.get("clients", {}).get("step_seconds", ()))
    rounds = []
    for each in run.rounds:
        steps = each.plan.get("step_seconds", speeds[each.cohort] if len(speeds) else ())
        gradients = np.array(each.steps, int) + bool(each.readings)
        seconds = each.plan["client_seconds"]
        trips = zip(places[each.cohort].tolist(), gradients.tolist(), seconds, steps, strict=True)
        if real:
            lost = {item["client"] for item in each.plan["refused"]} - {None, *each.cohort}
            took, server = each.wall["seconds"], each.wall["seconds"] - each.round_seconds["makespan"]
        else:  # who was merely late was dropped when the server moved, at that very moment
            lost = {int(who) for who, _, to in each.dropped if to < each.seconds["makespan"]}
            took, server = each.round_seconds["makespan"], 0.0
        absent = {*range(len(places))} - {*each.plan["asked"]} if real and whole else set[int]()
        failed, away = (places[sorted(some)].tolist() if some else [] for some in (lost, absent))
        rounds.append(TimedRound([*trips], failed, away, took, max(server, 0.0)))
    return rounds


def _client(trips: Sequence[tuple[int, float, float]]) -> tuple[float, float, float]:
    """Seconds a step and of the rest of a round, and by how much they vary together.

    Of a lognormal factor with a small sigma on each of w and b, the sum's deviation is sigma sqrt(w² + b²).
    """
    gradients, seconds, steps = np.array(trips, float).T
    own = np.minimum(steps, seconds / gradients)  # a client's own number, at most what the server measured
    step = max(float(np.median(own)), SMALLEST)
    rest = max(float(np.median(seconds - gradients * own)), 0.0)
    off = (seconds - gradients * step - rest) / np.maximum(np.hypot(gradients * step, rest), SMALLEST)
    sigma = SIGMAS * float(np.median(np.abs(off - np.median(off))))
    return step, rest, min(sigma, JITTER) if sigma > DUST else 0.0


def _presence(runs: Sequence[Sequence[TimedRound]], clients: int) -> tuple[Floats | None, Floats | None]:
    """Mean seconds there and away: the time spent so over how often it came to an end."""
    on, off, left, back = (np.zeros(clients) for _ in range(4))
    for rounds in runs:
        was = np.zeros(clients, bool)
        for nth, each in enumerate(rounds):
            now = np.isin(np.arange(clients), each.away)
            on, off = on + each.took * ~now, off + each.took * now
            if nth:
                left, back = left + (now & ~was), back + (was & ~now)
            was = now
    if not off.any():
        return None, None
    # who was never seen to leave stays as long as it was seen; 0 seconds away is never away
    stays = np.clip(on / np.maximum(left, 1), SMALLEST, LARGEST)
    return stays, np.clip(off / np.maximum(back, 1), 0.0, LARGEST)


def _weights(run: RunRecord, places: Floats) -> Floats | None:
    """Shares of the data, where only the clients know them: of the last round where all counted in full."""
    everybody = [*range(len(places))]
    whole = [each for each in run.rounds if sorted(each.cohort) == everybody and not any(each.staleness)]
    if run.settings.get("data") != "own" or not whole or not whole[-1].mix:
        return None
    shares = np.zeros(len(places))
    shares[places[whole[-1].cohort]] = whole[-1].mix
    return np.asarray(shares / shares.sum())
