"""The best round so far, in simulations and on real clients: by which score, and when to wait no longer."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Protocol

from amsfl.core import UserError
from amsfl.core.scores import Score

LESS = ("loss", "mse", "rmse", "mae")  # scores of which less is better


class BestRoundState(Protocol):
    """Where a run stands, as far as the best round goes."""

    round: int
    best_score: float | None  # more is better
    best_round: int
    stale: int  # scored rounds since then


def judged_by(scores: Mapping[str, Any], judge_by: str, score: Score | None) -> tuple[str, bool]:
    """The name of the score that rounds are compared by, and whether more of it is better; "" for none.

    It is `judge_by`, else the run's score, else the loss.
    """
    if judge_by:
        name = judge_by.removeprefix("-")
        return name, name not in LESS and not judge_by.startswith("-")
    if score is not None:
        return score.key, score.larger
    return next((name for name in LESS if name in scores), ""), False


def worth(scores: Mapping[str, Any], judge_by: str, score: Score | None) -> float | None:
    """What rounds are compared by, more is better; None where this round has none."""
    name, larger = judged_by(scores, judge_by, score)
    value = score.of(scores) if score is not None and not judge_by else scores.get(name)
    if not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value if larger else -value)


def judge(stand: BestRoundState, score: float | None, stop_after: int) -> bool:
    """Note a round's worth; whether `stop_after` scored rounds (0: never) brought no better one."""
    if score is None:
        return False
    if stand.best_score is None or score > stand.best_score:
        stand.best_score, stand.best_round, stand.stale = score, stand.round, 0
    else:
        stand.stale += 1
    return bool(stop_after) and stand.stale >= stop_after


def check(judge_by: str, numbers: bool) -> None:
    """Whether a simulation has that score of the hold-out."""
    known = ("r2", "mae", "rmse", "loss") if numbers else ("accuracy", "macro_f1", "loss")
    if judge_by and judge_by.removeprefix("-") not in known:
        raise UserError(
            f"judge_by is {judge_by!r}, and a simulation scores the hold-out by {', '.join(known)}; take one "
            "of those, or leave it out and name a --score."
        )
