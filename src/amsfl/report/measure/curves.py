"""A score along an axis (virtual time, rounds, bytes): several trials brought onto one curve.

A trial's model is its last one: after its end its score stays what it was. So a curve ends with the same
mean over trials that stands in the table.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.core import Score
from amsfl.report.measure.about import judged
from amsfl.report.measure.measures import MEGABYTE
from amsfl.report.measure.read import Series, Trial

Floats = npt.NDArray[np.float64]
AXES = ("seconds", "rounds", "megabytes", "joules")
FEW = 5  # trials; below that, quartiles mean nothing, and all of them are shown
POINTS = 160  # of a curve, at most: more than a phone has room for


class Curve(NamedTuple):
    x: Floats
    mean: Floats
    low: Floats  # the middle half of the trials, or all of them if they are few
    high: Floats


def positions(trial: Trial, axis: str, clock: str) -> Floats | None:
    """Where each round ended on that axis; None where the record does not say."""
    if axis == "seconds":
        return np.array([record.seconds[clock] for record in trial.rounds], float)
    if axis == "rounds":
        return np.array([record.round for record in trial.rounds], float)
    if axis == "joules":
        spent = [np.nan if record.joules is None else record.joules for record in trial.rounds]
        return None if not spent or np.isnan(spent).any() else np.cumsum(spent)
    sent = np.cumsum([record.bytes_up + record.bytes_down for record in trial.rounds]) / MEGABYTE
    return sent if len(sent) and sent[-1] > 0 else None


def curve(series: Series, score: Score, split: str, axis: str, clock: str) -> Curve | None:
    """Mean and spread over the trials, from where half of them have been evaluated."""
    tracks = [
        found for trial in series.trials if (found := _track(trial, score, split, axis, clock)) is not None
    ]
    if len(tracks) < len(series.trials) or not tracks:
        return None
    grid = np.unique(np.concatenate([x for x, _ in tracks]))
    starts = sorted(x[0] for x, _ in tracks)
    grid = _thinned(grid[grid >= starts[(len(starts) - 1) // 2]])
    stack = np.array([_held(x, scores, grid) for x, scores in tracks])
    there = np.isfinite(stack).any(0)
    grid, stack = grid[there], stack[:, there]
    if not len(grid):
        return None
    low, high = spread(stack)
    return Curve(grid, np.nanmean(stack, 0), low, high)


def spread(stack: Floats) -> tuple[Floats, Floats]:
    ends = (0, 100) if len(stack) < FEW else (25, 75)
    low, high = np.nanpercentile(stack, ends, axis=0)
    return low, high


def _track(trial: Trial, score: Score, split: str, axis: str, clock: str) -> tuple[Floats, Floats] | None:
    x = positions(trial, axis, clock)
    looked = [judged(record.metrics).get(split, {}) for record in trial.rounds]
    there = [place for place, scores in enumerate(looked) if score.key in scores]
    if x is None or not there:
        return None
    return x[there], np.array([score.of(looked[place]) for place in there], float)  # not finite: None, NaN


def _held(x: Floats, scores: Floats, grid: Floats) -> Floats:
    """The last evaluation's score at every point; NaN before the first."""
    place = np.searchsorted(x, grid, side="right") - 1
    return np.where(place >= 0, scores[np.maximum(place, 0)], np.nan)


def _thinned(grid: Floats) -> Floats:
    """As many points as can be seen, evenly, the first and the last among them."""
    if len(grid) <= POINTS:
        return grid
    return grid[np.unique(np.searchsorted(grid, np.linspace(grid[0], grid[-1], POINTS)))]


def shared_axes(series: Sequence[Series], clock: str) -> list[str]:
    """Axes that every trial is on record for."""
    trials = [trial for one in series for trial in one.trials]
    return [axis for axis in AXES if all(positions(trial, axis, clock) is not None for trial in trials)]
