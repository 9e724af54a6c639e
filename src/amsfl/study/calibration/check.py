"""How well does a profile that is fitted on the first half of a run predict the second half?"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock.sites import Floats
from amsfl.core import UserError
from amsfl.core.scores import recorded_score
from amsfl.study.calibration.fit import durations, fit, gradients_asked
from amsfl.study.calibration.timings import FEWEST, RunTimings, read

Places = np.ndarray[Any, np.dtype[np.int64]]
DRAWS = 100  # of rounds to fit by, and of their luck
LIKELY = (5.0, 95.0)  # percentiles of the interval


class Prediction(NamedTuple):
    """A predicted number, the bounds between which 90% of the draws lie, and the measured number."""

    predicted: float
    low: float
    high: float
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


class CalibrationCheck(NamedTuple):
    fitted: int  # rounds
    round_seconds: Prediction  # the mean of the rounds after those
    to_round: int  # the one that reached the target, or the last one
    reached: bool
    target: float | None
    seconds: Prediction  # from the run's start to that round


def check(folder: Path, target: float | None = None) -> CalibrationCheck:
    """Hold a fit on half of a run against the other half.

    Each draw fits on rounds of the first half drawn with replacement and has luck of its own, so that the
    interval holds both what few rounds leave open and what jitter does.
    """
    timings, run = read(folder)
    half, count = len(timings.moves) // 2, len(timings.moves)
    if half < FEWEST:
        raise UserError(f"The record {str(folder)!r} has {count} rounds; a check needs {2 * FEWEST} or more.")
    goal = target if target is not None else run.settings.get("target")
    score = recorded_score(str(run.settings.get("score") or "accuracy"))
    first = next((place for place, scores in enumerate(timings.scores) if score.met(scores, goal)), None)
    reached = first is not None and first >= half
    last = first if first is not None and reached else count - 1
    rng = np.random.default_rng(0)
    draws = np.array([_draw(timings, half, rng.integers(half, size=half), seed) for seed in range(DRAWS)])
    took = np.diff([0.0, *timings.moves])
    whole = timings.moves[half - 1] + draws[:, : last - half + 1].sum(1)
    return CalibrationCheck(
        half,
        _figure(draws.mean(1), float(took[half:].mean())),
        last + 1,
        reached,
        goal,
        _figure(whole, timings.moves[last]),
    )


def _draw(timings: RunTimings, half: int, some: Places, seed: int) -> Floats:
    """Seconds of the second half's rounds."""
    try:
        fitted = fit([timings], [sorted(some.tolist())])
    except UserError:  # a client that none of these rounds had
        fitted = fit([timings], [list(range(half))])
    return durations(fitted, timings, gradients_asked(timings, range(len(timings.moves))), seed)[half:]


def _figure(draws: Floats, measured: float) -> Prediction:
    low, high = np.percentile(draws, LIKELY)
    return Prediction(float(draws.mean()), float(low), float(high), measured)
