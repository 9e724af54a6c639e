"""A claim of the paper is an inequality `lhs <= rhs`, judged on a trace: every local model and gradient of a
run is known.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from claims.problems import Array
from claims.trace import Trace

ROUNDING = 1e-9  # of the size of what was subtracted; float64 leaves 1e-16 a step


class Sides(NamedTuple):
    """Both sides of an inequality; rhs = inf where its conditions are not met.

    `size` is how large the numbers were before they were subtracted: rounding is relative to it.
    """

    lhs: Array
    rhs: Array
    size: Array | float = 0.0


class Claim(NamedTuple):
    form: str  # printed, corrected
    name: str
    where: str  # in the paper
    text: str  # the inequality
    sides: Callable[[Trace], Sides]
    strong: bool = False  # needs mu > 0


CLAIMS: list[Claim] = []  # all of them, as the modules of this folder state them


def claim(
    form: str, name: str, where: str, text: str, strong: bool = False, **own: Any
) -> Callable[[Callable[..., Sides]], Callable[..., Sides]]:
    """The function's two sides, with these arguments of its own, are a claim."""

    def state(sides: Callable[..., Sides]) -> Callable[..., Sides]:
        CLAIMS.append(Claim(form, name, where, text, partial(sides, **own), strong))
        return sides

    return state


class ClaimResult(NamedTuple):
    """What a run says of one claim. `holds` is None where its conditions are met nowhere."""

    claim: Claim
    holds: bool | None
    checked: int
    violated: float  # share of what was checked

    @property
    def verdict(self) -> str:
        said = {None: "its conditions are not met", True: "holds", False: f"violated in {self.violated:.1%}"}
        return f"{self.claim.text}: {said[self.holds]}"


def violations(sides: Sides) -> Array:
    """Violated or not, for every finite comparison in `sides`."""
    lhs, rhs, size = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in sides))
    finite = np.isfinite(lhs) & np.isfinite(rhs)
    lhs, rhs, size = lhs[finite], rhs[finite], size[finite]
    return lhs - rhs > ROUNDING * np.maximum(size, np.maximum(np.abs(lhs), np.abs(rhs)))


def evaluate(claims: Iterable[Claim], trace: Trace) -> list[ClaimResult]:
    """Evaluate every claim on one run (or, with leading case axes, on thousands)."""
    weak = bool(np.any(trace.problem.convex <= 0))
    results = []
    for claim in claims:
        bad = np.zeros(0) if claim.strong and weak else violations(claim.sides(trace))
        share = float(bad.mean()) if bad.size else float("nan")
        results.append(ClaimResult(claim, not bad.any() if bad.size else None, bad.size, share))
    return results
