"""Seconds a step, latency, jitter, failures and absences of every client, from its recorded rounds.

A real run's seconds are the server's own, from an order to its reply, and a client's word on one step; a
simulated one's are virtual. Medians, so that one bad round moves nothing. What a real server does besides (it
scores, writes and asks who is available) is added to every client's latency.
"""

import csv
import io
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from amsfl.clock.profile import LARGEST, NAME, SMALLEST, Floats, Sites
from amsfl.core import UserError, listed
from amsfl.record import RunRecord, read_run

FEWEST = 3  # rounds that say anything
SIGMAS = 1.4826  # of a normal law, in median absolute deviations
JITTER = 10.0  # at most
DUST = 1e-9  # of rounding: less jitter than this is none
Trip = tuple[int, int, float, float]  # a client's place in the table, gradients, seconds, seconds of one step
Span = tuple[float, list[int]]  # how long a round took, and who could not be asked then


def calibrate(folders: Sequence[Path]) -> tuple[Sites, float]:
    """A table of sites from the records of runs with the same clients; and what of every latency is the
    server's own."""
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


def fit(runs: Sequence[RunRecord]) -> tuple[Sites, float]:
    """From the rounds of all runs, which have the same clients; a column only where there is something."""
    names = _names(runs[0])
    if _is_real(runs[0]):  # by their numbers, whoever was first to answer
        names = sorted(names, key=lambda name: (len(name), name))
    places = [np.array([names.index(name) for name in _names(run)]) for run in runs]
    timed = [_timed(run, mine) for run, mine in zip(runs, places, strict=True)]
    all_trips, all_failed, servers, spans = zip(*timed, strict=True)
    trips: list[list[tuple[int, float, float]]] = [[] for _ in names]
    for client, gradients, seconds, one in chain(*all_trips):
        trips[client].append((gradients, seconds, one))
    silent = [name for name, mine in zip(names, trips, strict=True) if not mine]
    if silent:
        raise UserError(
            f"No work of client {silent[0]!r} is on record in these rounds; calibrate by a longer run, or by "
            "one more that it took part in."
        )
    step, rest, jitter = (np.array(column) for column in zip(*map(_client, trips), strict=True))
    server = float(np.median([*chain(*servers)]))
    failed = np.bincount([*chain(*all_failed)], minlength=len(names))
    weights = (_weights(run, mine) for run, mine in zip(runs, places, strict=True))
    columns = next((each for each in weights if each), {})
    columns |= {"step_seconds": step, "latency": np.clip(rest + server, 0.0, LARGEST)}
    columns |= {"jitter": jitter} if jitter.any() else {}
    columns |= {"failure": failed / (failed + [len(mine) for mine in trips])} if failed.any() else {}
    columns |= _presence(spans, len(names))
    return Sites(Path("profile.csv"), tuple(names), columns), server


def as_csv(sites: Sites) -> str:
    """The CSV that `amsfl run --profile`, `amsfl plan` and `amsfl deploy --profile` take."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([NAME, *sites.columns])
    for place, name in enumerate(sites.clients):
        writer.writerow([name, *(f"{float(column[place]):.6g}" for column in sites.columns.values())])
    return file.getvalue()


def _is_real(run: RunRecord) -> bool:
    return run.manifest.kind == "flower"


def _names(run: RunRecord) -> list[str]:
    """The clients', in the order of the record; their places where nobody named them, or not yet."""
    names = run.manifest.about.get("clients", {}).get("names")
    asked = (who for each in run.rounds for who in (*each.cohort, *each.plan.get("asked", ())))
    count = run.manifest.made_from.get("clients") or 1 + max(asked, default=-1)
    return list(names or map(str, range(count)))


def _timed(run: RunRecord, places: Floats) -> tuple[list[Trip], list[int], list[float], list[Span]]:
    """A run's trips, whose work came to nothing (not for being late, nor for being away), what the server
    took of every round besides clients' work, and the rounds' spans; `places` are its clients' in the table.
    """
    real, whole = _is_real(run), max(len(each.plan.get("asked", ())) for each in run.rounds) == len(places)
    speeds = np.array(run.manifest.about.get("clients", {}).get("step_seconds", ()))
    trips, failed, servers, spans = list[Trip](), list[int](), list[float](), list[Span]()
    for each in run.rounds:
        steps = each.plan.get("step_seconds", speeds[each.cohort] if len(speeds) else ())
        gradients = np.array(each.steps, int) + bool(each.readings)
        seconds = each.plan["client_seconds"]
        trips += zip(places[each.cohort].tolist(), gradients.tolist(), seconds, steps, strict=True)
        if real:
            lost = {item["client"] for item in each.plan["refused"]} - {None, *each.cohort}
            took, server = each.wall["seconds"], each.wall["seconds"] - each.round_seconds["makespan"]
        else:  # who was merely late was dropped when the server moved, at that very moment
            lost = {int(who) for who, _, to in each.dropped if to < each.seconds["makespan"]}
            took, server = each.round_seconds["makespan"], 0.0
        absent = {*range(len(places))} - {*each.plan["asked"]} if real and whole else set[int]()
        failed += [places[who] for who in lost]
        servers.append(max(server, 0.0))
        spans.append((took, [places[who] for who in absent]))
    return trips, failed, servers, spans


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


def _presence(runs: Sequence[Sequence[Span]], clients: int) -> dict[str, Floats]:
    """Mean seconds there and away: the time spent so over how often it came to an end."""
    on, off, left, back = (np.zeros(clients) for _ in range(4))
    for spans in runs:
        was = np.zeros(clients, bool)
        for nth, (took, away) in enumerate(spans):
            now = np.isin(np.arange(clients), away)
            on, off = on + took * ~now, off + took * now
            if nth:
                left, back = left + (now & ~was), back + (was & ~now)
            was = now
    if not off.any():
        return {}
    # who was never seen to leave stays as long as it was seen; 0 seconds away is never away
    stays = np.clip(on / np.maximum(left, 1), SMALLEST, LARGEST)
    return {"on_seconds": stays, "off_seconds": np.clip(off / np.maximum(back, 1), 0.0, LARGEST)}


def _weights(run: RunRecord, places: Floats) -> dict[str, Floats]:
    """Shares of the data, where only the clients know them: of the last round where all counted in full."""
    everybody = [*range(len(places))]
    whole = [each for each in run.rounds if sorted(each.cohort) == everybody and not any(each.staleness)]
    if run.settings.get("data") != "own" or not whole or not whole[-1].mix:
        return {}
    shares = np.zeros(len(places))
    shares[places[whole[-1].cohort]] = whole[-1].mix
    return {"weight": shares / shares.sum()}
