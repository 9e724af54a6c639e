"""A claim of the paper is an inequality `lhs <= rhs`, judged on a trace: every local model and gradient of a
run is known.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from claims.trace import Trace

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
    """What a run says of one claim. `holds` is None where it cannot tell."""

    name: str
    where: str
    form: str
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


def judge(statement: Statement, sides: Sides) -> ClaimResult:
    """Compare both sides and write the verdict."""
    bad, slack = violations(sides)
    text = statement.text
    if not bad.size:
        return undecided(statement, f"{text}: its conditions are met nowhere in this run")
    share, least, middle = float(bad.mean()), float(slack.min()), float(np.median(slack))
    outcome = "holds" if not share else f"violated in {int(bad.sum())} of {bad.size}, worst by {-least:.2g}"
    return ClaimResult(*statement[:3], not share, int(bad.size), share, least, middle, f"{text}: {outcome}")


def undecided(statement: Statement, why: str) -> ClaimResult:
    nan = float("nan")
    return ClaimResult(*statement[:3], None, 0, nan, nan, nan, why)


class Claim(NamedTuple):
    """A statement that can be evaluated on a trace."""

    statement: Statement
    sides: Callable[[Trace], Sides]
    strong: bool = False  # needs mu > 0

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def where(self) -> str:
        return self.statement.where

    @property
    def form(self) -> str:
        return self.statement.form


def printed(name: str, where: str, text: str, sides: Callable[[Trace], Sides], strong: bool = False) -> Claim:
    """A claim as the paper prints it."""
    return Claim(Statement(name, where, "printed", text), sides, strong)


def corrected(
    name: str, where: str, text: str, sides: Callable[[Trace], Sides], strong: bool = False
) -> Claim:
    return Claim(Statement(name, where, "corrected", text), sides, strong)


def evaluate(claims: Iterable[Claim], trace: Trace) -> list[ClaimResult]:
    """Evaluate every claim on one run (or, with leading case axes, on thousands)."""
    weak = bool(np.any(trace.problem.convex <= 0))
    return [
        undecided(c.statement, f"{c.statement.text}: needs strong convexity (mu > 0)")
        if c.strong and weak
        else judge(c.statement, c.sides(trace))
        for c in claims
    ]
