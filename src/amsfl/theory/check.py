"""`amsfl check`: which claims a recorded run supports, which it refutes, which it cannot tell."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amsfl.core import UserError
from amsfl.theory import allocation, assumptions, recursion, residual
from amsfl.theory.claim import Claim, ClaimResult, Sides, evaluate, result, untold
from amsfl.theory.readings import CLOSE, Row, from_readings
from amsfl.theory.trace import Trace

CLAIMS: tuple[Claim, ...] = (*assumptions.CLAIMS, *recursion.CLAIMS, *residual.CLAIMS, *allocation.CLAIMS)
NEEDS = {
    "error identity": "every local model",
    "GDA error": "a Hessian-vector product",
    "bounded gradient": "gradients where the run has not been",
    "what is minimised": "L and G",
    "step allocation": "seconds a step of each client; it is a statement about t, not about a run",
}
CORRECTING = ("fedprox", "scaffold", "feddyn", "fedcsda")  # clients do not step along their plain gradient
NORMALISING = ("fednova",)  # steps do not enter the aggregation weights


def inconsistency(rows: Sequence[Row], config: Mapping[str, Any]) -> ClaimResult:
    """Total variation between omega and omega t / E: zero is what Theorems 3.1 and 3.2 take for granted."""
    name, where, form = "objective kept", "Thm 3.1, A.2", "printed"
    if config.get("method") in NORMALISING:
        return untold(name, where, form, "the method averages normalised updates, so steps do not tilt it")
    moved, known = [], True
    for row in rows:
        weights = (row.get("plan") or {}).get("weights")
        known &= weights is not None
        share = np.ones(len(row["steps"])) if weights is None else np.array(weights, dtype=float)
        share = share / share.sum()
        counted = share * np.array(row["steps"], dtype=float)
        moved.append(0.5 * float(np.abs(counted / counted.sum() - share).sum()))
    note = f"largest shift {max(moved):.3f} of the total weight"
    if not known:
        note += "; weights were not recorded, equal ones assumed"
    return result(
        name,
        where,
        form,
        "steps leave the weights as they are: TV(w t/E, w) = 0",
        Sides(np.array(moved), np.zeros(1), 1.0),
        "readings",
        1e-9,
        note,
    )


def times(rows: Sequence[Row], config: Mapping[str, Any]) -> list[ClaimResult]:
    """The round budget, and the plan's prediction against the clock."""
    budget, kind = config.get("budget"), config.get("clock", "sum")
    actual = np.array([float(row["round_seconds"].get(kind, np.nan)) for row in rows])
    said = np.array(
        [np.nan if row.get("predicted_seconds") is None else float(row["predicted_seconds"]) for row in rows]
    )
    if budget is not None:
        over = float(np.nanmax(actual - budget, initial=0.0))
        sides = Sides(actual, np.full(len(actual), float(budget)))
        kept = result(
            "round budget",
            "3.4, Algorithm 1",
            "printed",
            f"{kind} of seconds <= S = {budget:g}",
            sides,
            "clock",
            1e-6,
            f"largest overshoot {over:.3g} s",
        )
    else:
        kept = untold("round budget", "3.4, Algorithm 1", "printed", "no budget a round was set in this run")
    planned = said > 0
    if not np.any(planned):
        return [kept, untold("round seconds", "3.4", "printed", "the plan predicted no round time")]
    off = np.abs(said - actual)[planned] / np.maximum(actual[planned], 1e-12)
    timed = result(
        "round seconds",
        "3.4",
        "printed",
        f"predicted within {CLOSE:.0%} of the {kind} clock",
        Sides(off, np.full(off.shape, CLOSE), 1.0),
        "clock",
        1e-9,
        f"median off by {float(np.median(off)):.1%}",
    )
    return [kept, timed]


def check_run(
    rows: Sequence[Row], config: Mapping[str, Any], trace: Trace | None = None
) -> list[ClaimResult]:
    """Everything a recorded run can say; with a trace (known constants) every claim of the paper too.

    Of the configuration it reads `method`, `clock` (sum or makespan) and `budget` (seconds a round).
    """
    if not rows and trace is None:
        raise UserError(
            "The run has no rounds, so there is nothing to check; "
            "give a folder whose rounds.jsonl has at least one line."
        )
    found: list[ClaimResult] = []
    if rows:
        found += from_readings(rows, config.get("method") not in CORRECTING)
        found += [inconsistency(rows, config), *times(rows, config)]
    if trace is not None:
        return found + evaluate(CLAIMS, trace)
    told = {(r.name, r.form) for r in found}
    return found + [
        untold(
            c.name,
            c.where,
            c.form,
            f"{c.statement}: cannot be told from a recorded run, "
            f"needs {NEEDS.get(c.name.split(',')[0], 'w*')}",
        )
        for c in CLAIMS
        if (c.name, c.form) not in told and c.where != "docs/theory.md"
    ]
