"""A score along an axis (virtual time, rounds, bytes, joules): several trials as one curve.

After a trial's end its score stays what it was, so a curve ends at the mean over trials of the table.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.clock.costs import MEGABYTE
from amsfl.core import Score
from amsfl.report.measure.read import FinishedTrial, Series, judged

Floats = npt.NDArray[np.float64]
FEW = 5  # trials; below that, quartiles mean nothing, and the band holds all of them
POINTS = 160  # of a curve, at most: more than a phone has room for


class Curve(NamedTuple):
    x: Floats
    mean: Floats
    low: Floats  # the middle half of the trials, or all of them if they are few
    high: Floats


def positions(trial: FinishedTrial, axis: str, clock: str) -> Floats | None:
    """Where each round ended on that axis; None where it is not on record."""
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
    tracks = [_track(trial, score, split, axis, clock) for trial in series.trials]
    complete = [track for track in tracks if track is not None]
    if len(complete) < len(tracks) or not complete:
        return None
    starts = sorted(x[0] for x, _ in complete)
    grid = np.unique(np.concatenate([x for x, _ in complete]))
    grid = grid[grid >= starts[(len(starts) - 1) // 2]]
    if len(grid) > POINTS:
        grid = grid[np.unique(np.searchsorted(grid, np.linspace(grid[0], grid[-1], POINTS)))]
    scores = np.array([_held(x, values, grid) for x, values in complete])
    finite = np.isfinite(scores).any(0)
    grid, scores = grid[finite], scores[:, finite]
    if not len(grid):
        return None
    return Curve(grid, np.nanmean(scores, 0), *spread(scores))


def spread(scores: Floats) -> tuple[Floats, Floats]:
    low, high = np.nanpercentile(scores, (0, 100) if len(scores) < FEW else (25, 75), axis=0)
    return low, high


def _track(
    trial: FinishedTrial, score: Score, split: str, axis: str, clock: str
) -> tuple[Floats, Floats] | None:
    """Places and values of a trial's evaluations."""
    x = positions(trial, axis, clock)
    rounds = [judged(record.metrics).get(split, {}) for record in trial.rounds]
    scored = [place for place, scores in enumerate(rounds) if score.key in scores]
    if x is None or not scored:
        return None
    return x[scored], np.array([score.of(rounds[place]) for place in scored], float)  # not finite: None, NaN


def _held(x: Floats, scores: Floats, grid: Floats) -> Floats:
    """The last evaluation's score at every point; NaN before the first."""
    place = np.searchsorted(x, grid, side="right") - 1
    return np.where(place >= 0, scores[np.maximum(place, 0)], np.nan)


def evenly(count: int, most: int) -> npt.NDArray[np.int64]:
    """Places of at most so many of `count` things, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
