"""What a run would have come to without a client, with a faster one, or in less time: from its record alone.

Where a client leaves rounds that wait for all, and no steps were planned by worth, each round is as long as
on record, less what that client alone caused. Else seconds are replayed: speeds are fitted to the record
(calibration/), and every round is gone through again; where steps were planned by worth, it is planned again
by its recorded gains and drifts. Scores are the ledger's, of the model without that client (worth/ledger.py).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl import schedule
from amsfl.core import UserError, nearest
from amsfl.record import RoundRecord, RunRecord
from amsfl.settings.definitions import PLANNED_STEPS_AT_MOST
from amsfl.study.calibration.fit import FittedSites, GradientsByClient, durations, fit, gradients_asked
from amsfl.study.calibration.timings import RunTimings, read
from amsfl.worth.costs import caused

DRAWS = 8  # of jitter; the mean over them is reported


class Course(NamedTuple):
    """Seconds at which rounds end, and scores of those rounds at which the ledger was looked at."""

    ends: list[float]  # of all rounds
    rounds: list[int]  # that have a score, from 1
    scores: list[float]

    @property
    def seconds(self) -> list[float]:
        """When each score was reached."""
        return [self.ends[number - 1] for number in self.rounds]

    def reached(self, target: float) -> float | None:
        """When a score was first met, between two looks by the straight line; None: never."""
        when, before = self.seconds, None
        for at, (now, score) in enumerate(zip(when, self.scores, strict=True)):
            if score >= target:
                if at == 0 or before is None or score == before:
                    return now
                part = (target - before) / (score - before)
                return when[at - 1] + part * (now - when[at - 1])
            before = score
        return None

    def within(self, seconds: float) -> float | None:
        """The last score within so many seconds."""
        scores = [score for now, score in zip(self.seconds, self.scores, strict=True) if now <= seconds]
        return scores[-1] if scores else None


class WhatIf(NamedTuple):
    """A run as it was and as it would have been, both replayed, and by how much the replay is wrong."""

    was: Course
    would: Course
    error: float  # of the replay of what was: its seconds over the record's, less 1
    target: float | None


class Replay(NamedTuple):
    """A record, what is fitted to it, and who is left out."""

    timings: RunTimings
    run: RunRecord
    sites: FittedSites
    clock: str
    gone: int | None


def what_if(folder: Path, without: str | None = None, speeds: Mapping[str, float] | None = None) -> WhatIf:
    """Replay a record with one client left out, or with clients that compute so many times as fast.

    Args:
        folder: Of a run with a ledger (worth=true).
        without: The client's name.
        speeds: By name, as in {"Graz": 2.0}.

    Returns:
        Both courses.
    """
    timings, run = read(folder)
    looks = [each for each in run.rounds if each.worth]
    if not looks:
        raise UserError(
            f"The record {str(folder)!r} has no ledger of contributions; run it again with --worth."
        )
    clock = str(run.settings.get("clock", "makespan"))
    gone = None if without is None else _place(timings.names, without)
    sites = fit([timings])
    quick = sites.step_seconds.copy()
    for name, times in (speeds or {}).items():
        quick[_place(timings.names, name)] /= times
    took = timings.moves if clock == "makespan" else [each.seconds[clock] for each in run.rounds]
    replay = Replay(timings, run, sites, clock, gone)
    was = _ends(replay, sites, None)
    would = _ends(replay, sites._replace(step_seconds=quick), gone) if gone is not None or speeds else was
    scale = took[-1] / was[-1]
    would = [scale * each for each in would]
    if gone is not None and not speeds and timings.lags is None:
        would = _shorter(run.rounds, took, clock, gone) or would
    scores = [each.worth["score"] for each in looks]
    other = scores if gone is None else [each.worth["without"][gone] for each in looks]
    numbers = [each.round for each in looks]
    return WhatIf(
        Course(list(took), numbers, scores),
        Course(would, numbers, other),
        float(was[-1] / took[-1] - 1),
        run.settings.get("target"),
    )


def _shorter(
    rounds: Sequence[RoundRecord], took: Sequence[float], clock: str, gone: int
) -> list[float] | None:
    """When rounds would have ended without a client whose leaving changes nobody's orders; None: it does."""
    if any("gain" in each.plan or "client_seconds" not in each.plan for each in rounds):
        return None
    alone = [caused(each, clock)[[who == gone for who in each.cohort]].sum() for each in rounds]
    return [float(end) for end in np.cumsum(np.diff(took, prepend=0.0) - alone)]


def _place(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise UserError(f"The record has no client {name!r}{nearest(name, names)}.")
    return names.index(name)


def _ends(replay: Replay, sites: FittedSites, gone: int | None) -> list[float]:
    """When each round would have ended."""
    timings, rounds, clock = replay.timings, replay.run.rounds, replay.clock
    asked = gradients_asked(timings, range(len(timings.moves)))
    if timings.lags is None and sites is not replay.sites:  # as it was, plans are on record
        asked = [_planned(replay, sites, each, todo) for each, todo in zip(rounds, asked, strict=True)]
    asked = [{who: count for who, count in todo.items() if who != gone} for todo in asked]
    step, rest = sites.step_seconds, sites.latency
    if clock == "sum":
        took = [sum(step[who] * count + rest[who] for who, count in todo.items()) for todo in asked]
        return [float(end) for end in np.cumsum(took)]
    worked = [todo for todo in asked if todo]
    draws = [durations(sites, timings, worked, seed) for seed in range(DRAWS)]
    mean = iter(np.mean(draws, axis=0).tolist())
    return [float(end) for end in np.cumsum([next(mean) if todo else 0.0 for todo in asked])]


def _planned(
    replay: Replay, sites: FittedSites, each: RoundRecord, todo: GradientsByClient
) -> GradientsByClient:
    """The round's steps, planned again for those who are left; as they were where no worth is on record."""
    left = [place for place, who in enumerate(each.cohort) if who != replay.gone]
    if "gain" not in each.plan or not left:
        return todo
    who = [each.cohort[place] for place in left]
    more = np.array([todo[client] - each.steps[place] for client, place in zip(who, left, strict=True)])
    weights, gain, drift = (np.array(each.plan[name])[left] for name in ("weights", "gain", "drift"))
    why, steps = np.array(each.plan["why"])[left], np.array(each.steps)[left]
    problem = schedule.problem(
        weights,
        sites.step_seconds[who],
        sites.latency[who] + sites.step_seconds[who] * more,
        gain,
        drift,
        curve="geometric",
        kind=replay.clock,  # type: ignore[arg-type]  # checked when the run began
        budget=replay.run.settings.get("budget"),
        t_max=np.where(why == "cap", steps, max(PLANNED_STEPS_AT_MOST, *each.steps)),
    )
    planned = schedule.policy("price")(problem).steps + more
    return dict(zip(who, planned.tolist(), strict=True))
