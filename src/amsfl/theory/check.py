"""`amsfl check`: which claims a recorded run supports, which it refutes, which it cannot tell."""

from collections.abc import Sequence

import numpy as np

from amsfl.core import UserError
from amsfl.record import MethodFacts, RoundRecord
from amsfl.theory import allocation, assumptions, recursion, residual
from amsfl.theory.arrays import Array
from amsfl.theory.claim import Claim, ClaimResult, Sides, evaluate, result, undecided
from amsfl.theory.readings import from_readings
from amsfl.theory.trace import Trace

CLAIMS: tuple[Claim, ...] = (*assumptions.CLAIMS, *recursion.CLAIMS, *residual.CLAIMS, *allocation.CLAIMS)
NEEDS = {
    "error identity": "every local model",
    "GDA error": "a Hessian-vector product",
    "bounded gradient": "gradients where the run has not been",
    "what is minimised": "L and G",
    "step allocation": "seconds a step of each client; it is a statement about t, not about a run",
}
CLOSE = 0.1  # a predicted round time within a tenth counts as right


def tilt(weights: Array, mix: Array, applied: Array) -> float:
    """Total variation between the weights and what the clients' mean steps count for in the average.

    A client that applies n steps of mean size d sends n d, of which the average takes mix n d: its mean
    step counts for mix n, so FedAvg (mix = w) has w t / E and FedNova (mix = w / t) the weights themselves.
    """
    counted = mix * applied
    return 0.5 * float(np.abs(counted / counted.sum() - weights / weights.sum()).sum())


def inconsistency(rows: Sequence[RoundRecord], facts: MethodFacts) -> ClaimResult:
    """Whether steps leave the weights alone, which Theorems 3.1 and 3.2 take for granted."""
    name, where, form = "objective kept", "Thm 3.1, A.2", "printed"
    moved = [
        tilt(
            np.array(row.plan["weights"], dtype=float),
            np.array(row.mix, dtype=float),
            np.array(row.steps, dtype=float) + facts.closing,
        )
        for row in rows
        if row.mix and "weights" in row.plan
    ]
    if not moved:
        return undecided(name, where, form, "cannot be told: the record does not say how uploads were mixed")
    notes = [f"largest shift {max(moved):.3f} of the total weight"]
    if facts.strides:
        notes.append("by number of steps, whatever their lengths")
    if not facts.plain:
        notes.append("the method corrects its gradients, which may undo it")
    return result(
        name,
        where,
        form,
        "steps leave the weights as they are: TV(mix t, w) = 0",
        Sides(np.array(moved), np.zeros(1), 1.0),
        "readings",
        1e-6,  # mixing weights may have been float32
        "; ".join(notes),
    )


def times(rows: Sequence[RoundRecord], kind: str, budget: float | None) -> list[ClaimResult]:
    """The round budget, and the plan's prediction against the clock."""
    actual = np.array([float(row.round_seconds.get(kind, np.nan)) for row in rows])
    said = np.array([row.predicted_seconds or np.nan for row in rows])
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
        kept = undecided(
            "round budget", "3.4, Algorithm 1", "printed", "no budget a round was set in this run"
        )
    planned = said > 0
    if not np.any(planned):
        return [kept, undecided("round seconds", "3.4", "printed", "the plan predicted no round time")]
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
    rows: Sequence[RoundRecord],
    facts: MethodFacts,
    *,
    clock: str = "sum",
    budget: float | None = None,
    trace: Trace | None = None,
) -> list[ClaimResult]:
    """Everything a recorded run can say; with a trace every claim of the paper too.

    Args:
        rows: Rounds of a record.
        facts: What the record says of the method.
        clock: sum or makespan: the clock it was planned by.
        budget: Its seconds a round.
        trace: The same run with its models and known constants.

    Returns:
        Every claim and how it fared.
    """
    if not rows and trace is None:
        raise UserError(
            "The run has no rounds, so there is nothing to check; "
            "give a folder whose rounds.jsonl has at least one line."
        )
    found: list[ClaimResult] = []
    if rows:
        found += from_readings(rows, facts)
        found += [inconsistency(rows, facts), *times(rows, clock, budget)]
    if trace is not None:
        return found + evaluate(CLAIMS, trace)
    told = {(r.name, r.form) for r in found}
    return found + [
        undecided(
            c.name,
            c.where,
            c.form,
            f"{c.statement}: cannot be told from a recorded run, "
            f"needs {NEEDS.get(c.name.split(',')[0], 'w*')}",
        )
        for c in CLAIMS
        if (c.name, c.form) not in told and c.where != "docs/theory.md"
    ]
