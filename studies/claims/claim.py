"""A claim that can be evaluated on a trace: every local model and gradient of a run is known."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from amsfl.theory.claim import ClaimResult, Sides, Statement, judge, undecided
from claims.trace import Trace


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
