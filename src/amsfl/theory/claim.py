"""A claim of the paper is `lhs <= rhs` as a function of a run; a result says how it stood."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amsfl.theory.arrays import Array
from amsfl.theory.trace import Trace

ROUNDING = 1e-9  # of the size of what was subtracted; float64 leaves 1e-16 a step


class Sides(NamedTuple):
    """Both sides of an inequality; rhs = inf where its conditions are not met.

    `size` is how large the numbers were before they were subtracted: rounding is relative to it.
    """

    lhs: Array
    rhs: Array
    size: Array | float = 0.0


class Claim(NamedTuple):
    name: str
    where: str  # in the paper
    form: str  # printed, corrected
    statement: str
    sides: Callable[[Trace], Sides]
    strong: bool = False  # speaks of mu > 0


class ClaimResult(NamedTuple):
    """One row of `amsfl check`. `holds` is None where the run cannot tell."""

    name: str
    where: str
    form: str
    basis: str  # what it was judged by: constants (known ones), readings, clock, or none
    holds: bool | None
    checked: int
    violated: float  # share of what was checked
    slack_min: float  # (rhs - lhs) / size: 0 is tight, 1 and more is far, below 0 is violated
    slack_median: float
    verdict: str


def violations(sides: Sides, rounding: float = ROUNDING) -> tuple[NDArray[np.bool_], Array]:
    """Violated or not, and the slack, for every finite comparison in `sides`."""
    lhs, rhs, size = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in sides))
    told = np.isfinite(lhs) & np.isfinite(rhs)
    lhs, rhs, size = lhs[told], rhs[told], size[told]
    size = np.maximum(size, np.maximum(np.abs(lhs), np.abs(rhs)))
    slack = np.divide(rhs - lhs, size, out=np.zeros_like(size), where=size > 0)
    return slack < -rounding, slack


def result(
    name: str,
    where: str,
    form: str,
    statement: str,
    sides: Sides,
    basis: str = "constants",
    rounding: float = ROUNDING,
    note: str = "",
) -> ClaimResult:
    """Judge both sides and say it in a sentence."""
    bad, slack = violations(sides, rounding)
    if not bad.size:
        return undecided(name, where, form, f"{statement}: its conditions are met nowhere in this run")
    share, least, middle = float(bad.mean()), float(slack.min()), float(np.median(slack))
    said = "holds" if not share else f"violated in {int(bad.sum())} of {bad.size}, worst by {-least:.2g}"
    return ClaimResult(
        name,
        where,
        form,
        basis,
        not share,
        int(bad.size),
        share,
        least,
        middle,
        f"{statement}: {said}{'; ' + note if note else ''}",
    )


def undecided(name: str, where: str, form: str, why: str) -> ClaimResult:
    return ClaimResult(name, where, form, "none", None, 0, float("nan"), float("nan"), float("nan"), why)


def evaluate(claims: Iterable[Claim], trace: Trace) -> list[ClaimResult]:
    """Every claim held against one run (or, with leading case axes, against thousands).

    Args:
        claims: Of the paper, printed or corrected.
        trace: A run with known constants.

    Returns:
        Every claim and how it fared.
    """
    weak = bool(np.any(trace.problem.convex <= 0))
    return [
        undecided(c.name, c.where, c.form, f"{c.statement}: needs strong convexity (mu > 0)")
        if c.strong and weak
        else result(c.name, c.where, c.form, c.statement, c.sides(trace))
        for c in claims
    ]


def table(results: Iterable[ClaimResult]) -> list[dict[str, str | float | None]]:
    """Rows of plain values for a printed table or JSON.

    Args:
        results: Of `evaluate` or `check_run`.

    Returns:
        One dict a claim.
    """
    return [r._asdict() for r in results]
