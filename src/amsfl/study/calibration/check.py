"""Fitted on the first half of a run's rounds, how well does a profile foretell the second?"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock.sites import Floats
from amsfl.core import UserError
from amsfl.core.scores import recorded
from amsfl.study.calibration.fit import asked, fit
from amsfl.study.calibration.foretell import durations
from amsfl.study.calibration.seen import FEWEST, Seen, read

Places = np.ndarray[Any, np.dtype[np.int64]]
DRAWS = 100  # of rounds to fit by, and of their luck
LIKELY = (5.0, 95.0)  # percentiles of the interval


class Figure(NamedTuple):
    """A number foretold, between which bounds 90% of the draws lie, and what it was."""

    foretold: float
    low: float
    high: float
    measured: float

    @property
    def error(self) -> float:
        return self.foretold / self.measured - 1


class Checked(NamedTuple):
    fitted: int  # rounds
    round_seconds: Figure  # the mean of the rounds after those
    to_round: int  # the one that reached the target, or the last one
    reached: bool
    target: float | None
    seconds: Figure  # from the run's start to that round


def check(folder: Path, target: float | None = None) -> Checked:
    """Hold a fit on half of a run against the other half.

    Each draw fits on rounds of the first half drawn with replacement and has luck of its own, so that the
    interval holds both what few rounds leave open and what jitter does.

    Args:
        folder: A run's record.
        target: The score to reach, in place of the run's own.

    Returns:
        The mean round's seconds, and those to the target.
    """
    seen, run = read(folder)
    half, count = len(seen.moves) // 2, len(seen.moves)
    if half < FEWEST:
        raise UserError(f"The record {str(folder)!r} has {count} rounds; a check needs {2 * FEWEST} or more.")
    goal = target if target is not None else run.settings.get("target")
    score = recorded(str(run.settings.get("score") or "accuracy"))
    first = next((place for place, found in enumerate(seen.scores) if score.met(found, goal)), None)
    reached = first is not None and first >= half
    last = first if first is not None and reached else count - 1
    rng = np.random.default_rng(0)
    draws = np.array([_draw(seen, half, rng.integers(half, size=half), seed) for seed in range(DRAWS)])
    took = np.diff([0.0, *seen.moves])
    whole = seen.moves[half - 1] + draws[:, : last - half + 1].sum(1)
    return Checked(
        half,
        _figure(draws.mean(1), float(took[half:].mean())),
        last + 1,
        reached,
        goal,
        _figure(whole, seen.moves[last]),
    )


def _draw(seen: Seen, half: int, some: Places, seed: int) -> Floats:
    """Seconds of the second half's rounds."""
    try:
        fitted = fit([seen], [sorted(some.tolist())])
    except UserError:  # a client that none of these rounds had
        fitted = fit([seen], [list(range(half))])
    return durations(fitted, seen, asked(seen, range(len(seen.moves))), seed)[half:]


def _figure(draws: Floats, measured: float) -> Figure:
    low, high = np.percentile(draws, LIKELY)
    return Figure(float(draws.mean()), float(low), float(high), measured)
