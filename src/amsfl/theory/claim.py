"""A claim of the paper is an inequality `lhs <= rhs`; a result says whether it held in a run."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDING = 1e-9  # of the size of what was subtracted; float64 leaves 1e-16 a step


class Sides(NamedTuple):
    """Both sides of an inequality; rhs = inf where its conditions are not met.

    `size` is how large the numbers were before they were subtracted: rounding is relative to it.
    """

    lhs: Array
    rhs: Array
    size: Array | float = 0.0


class Statement(NamedTuple):
    name: str
    where: str  # in the paper
    form: str  # printed, corrected
    text: str  # the inequality


class ClaimResult(NamedTuple):
    """One row of `amsfl check`. `holds` is None where the run cannot tell."""

    name: str
    where: str
    form: str
    basis: str  # known constants, readings, clock, or none
    holds: bool | None
    checked: int
    violated: float  # share of what was checked
    slack_min: float  # (rhs - lhs) / size: 0 is tight, 1 and more is far, below 0 is violated
    slack_median: float
    verdict: str


def violations(sides: Sides, rounding: float = ROUNDING) -> tuple[NDArray[np.bool_], Array]:
    """Violated or not, and the slack, for every finite comparison in `sides`."""
    lhs, rhs, size = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in sides))
    finite = np.isfinite(lhs) & np.isfinite(rhs)
    lhs, rhs, size = lhs[finite], rhs[finite], size[finite]
    size = np.maximum(size, np.maximum(np.abs(lhs), np.abs(rhs)))
    slack = np.divide(rhs - lhs, size, out=np.zeros_like(size), where=size > 0)
    return slack < -rounding, slack


def judge(
    statement: Statement,
    sides: Sides,
    basis: str = "constants",
    rounding: float = ROUNDING,
    note: str = "",
) -> ClaimResult:
    """Compare both sides and write the verdict."""
    bad, slack = violations(sides, rounding)
    text = statement.text
    if not bad.size:
        return undecided(statement, f"{text}: its conditions are met nowhere in this run")
    share, least, middle = float(bad.mean()), float(slack.min()), float(np.median(slack))
    outcome = "holds" if not share else f"violated in {int(bad.sum())} of {bad.size}, worst by {-least:.2g}"
    verdict = f"{text}: {outcome}{'; ' + note if note else ''}"
    return ClaimResult(*statement[:3], basis, not share, int(bad.size), share, least, middle, verdict)


def undecided(statement: Statement, why: str) -> ClaimResult:
    nan = float("nan")
    return ClaimResult(*statement[:3], "none", None, 0, nan, nan, nan, why)


def table(results: Iterable[ClaimResult]) -> list[dict[str, str | float | None]]:
    """Rows of plain values for a printed table or JSON.

    Args:
        results: Of `check_run`.

    Returns:
        One dict a claim.
    """
    return [r._asdict() for r in results]
