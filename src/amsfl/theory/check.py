"""`amsfl check`: which claims a recorded run supports, which it refutes, which it cannot tell."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from amsfl.core import UserError
from amsfl.record import MethodFacts, RoundRecord, read_run
from amsfl.theory.claim import Array, ClaimResult, Sides, Statement, judge, undecided
from amsfl.theory.readings import from_readings

# claims of the paper that need more than a record holds: their names, where they stand, what they need
UNTOLD = (
    ("error recursion", "Thm 3.1", "w*"),
    ("error that remains", "Thm 3.2", "w*"),
    ("GDA error", "Prop 3.3", "a Hessian-vector product"),
    ("step allocation", "Thm 3.4", "L, G, and seconds a step of each client"),
)
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
    text = "steps leave the weights as they are: TV(mix t, w) = 0"
    statement = Statement("objective kept", "Thm 3.1, A.2", "printed", text)
    shifts = [
        tilt(
            np.array(row.plan["weights"], dtype=float),
            np.array(row.mix, dtype=float),
            np.array(row.steps, dtype=float) + facts.closing,
        )
        for row in rows
        if row.mix and "weights" in row.plan
    ]
    if not shifts:
        return undecided(statement, "cannot be told: the record does not say how uploads were mixed")
    notes = [f"largest shift {max(shifts):.3f} of the total weight"]
    if facts.strides:
        notes.append("by number of steps, whatever their lengths")
    if not facts.plain:
        notes.append("the method corrects its gradients, which may undo it")
    sides = Sides(np.array(shifts), np.zeros(1), 1.0)
    return judge(statement, sides, "readings", 1e-6, "; ".join(notes))  # mixing weights may be float32


def times(rows: Sequence[RoundRecord], kind: str, budget: float | None) -> list[ClaimResult]:
    """The round budget, and the plan's prediction against the clock."""
    actual = np.array([float(row.round_seconds.get(kind, np.nan)) for row in rows])
    predicted = np.array([row.predicted_seconds or np.nan for row in rows])
    limit = Statement(
        "round budget", "3.4, Algorithm 1", "printed", f"{kind} of seconds <= S = {budget or 0:g}"
    )
    if budget is None:
        within = undecided(limit, "no budget a round was set in this run")
    else:
        over = float(np.nanmax(actual - budget, initial=0.0))
        sides = Sides(actual, np.full(len(actual), float(budget)))
        within = judge(limit, sides, "clock", 1e-6, f"largest overshoot {over:.3g} s")
    text = f"predicted within {CLOSE:.0%} of the {kind} clock"
    prediction = Statement("round seconds", "3.4", "printed", text)
    planned = predicted > 0
    if not np.any(planned):
        return [within, undecided(prediction, "the plan predicted no round time")]
    off = np.abs(predicted - actual)[planned] / np.maximum(actual[planned], 1e-12)
    sides = Sides(off, np.full(off.shape, CLOSE), 1.0)
    note = f"median off by {float(np.median(off)):.1%}"
    return [within, judge(prediction, sides, "clock", 1e-9, note)]


def check_run(
    rows: Sequence[RoundRecord], facts: MethodFacts, clock: str = "sum", budget: float | None = None
) -> list[ClaimResult]:
    """Check what a recorded run can tell.

    Args:
        rows: Rounds of a record.
        facts: The record's facts on the method.
        clock: sum or makespan: the clock it was planned by.
        budget: Its seconds a round.

    Returns:
        Every claim and its result.
    """
    if not rows:
        raise UserError(
            "The run has no rounds, so there is nothing to check; "
            "give a folder whose rounds.jsonl has at least one line."
        )
    untold = [
        undecided(
            Statement(name, where, "printed", ""),
            f"cannot be told from a recorded run, needs {what}; studies/claims/ has problems that know it",
        )
        for name, where, what in UNTOLD
    ]
    facts = facts._replace(plain=facts.plain and not any(row.plan.get("correction") for row in rows))
    return [*from_readings(rows, facts), inconsistency(rows, facts), *times(rows, clock, budget), *untold]


def check_folder(folder: Path) -> list[ClaimResult]:
    """`check_run` on what a folder holds.

    Args:
        folder: Of a recorded run.

    Returns:
        Every claim and its result.
    """
    run = read_run(folder)
    return check_run(run.rounds, run.method, run.settings.get("clock", "sum"), run.settings.get("budget"))
