"""What an ordinary run's readings can tell of the paper's claims, and what they cannot.

A recorded run knows no w*, no Hessian and no constant. Its readings show L and G from below: the largest
secant and the largest gradient norm at the two ends of the local work. The bounds grow with L and with G,
so one that holds with these holds with the true ones; one that does not asks for larger constants than the
ends show (or for less minibatch noise), and nothing follows. Where a method sets its strides, lr is the cap
of every one of them: what grows with the step length uses it, what needs the strides cannot be told.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl.record import MethodFacts, RoundRecord
from amsfl.theory.claim import Array, ClaimResult, Sides, Statement, judge, undecided

FIELDS = ("grad_sq", "diff_sq", "delta_sq", "grad_diff", "grad_delta", "grad_dir", "diff_dir", "delta_dir")
ROUNDING = 2e-3  # engines may work in float32 and ||Delta_i|| comes out of a difference of squares
BELOW = "L and G are what the ends of the local work show, the true ones are no smaller"
STRIDES = "cannot be told: strides differ, and the record has their cap only"
CORRECTS = "cannot be told: the method corrects its gradients, so a step is not the gradient that was read"


class GradientReadings(NamedTuple):
    """All clients of all rounds, flattened; rows with a reading that is not finite are left out."""

    steps: Array
    lr: Array  # the step length, or the cap of all; NaN where none was known yet
    value: dict[str, Array]
    smooth: float  # largest ||dg|| / ||delta||
    bound: float  # largest gradient norm at either end of the local work


def gather(rows: Sequence[RoundRecord]) -> GradientReadings | None:
    """None if the run kept no readings."""
    kept = [row for row in rows if all(name in row.readings for name in FIELDS)]
    steps = np.array([t for row in kept for t in row.steps], float)
    lr = np.array([row.lr or np.nan for row in kept for _ in row.steps], float)
    full = {name: np.array([x for row in kept for x in row.readings[name]], float) for name in FIELDS}
    good = np.all([np.isfinite(x) for x in full.values()], axis=0) & (full["grad_sq"] > 0)
    if not np.any(good):
        return None
    full = {name: x[good] for name, x in full.items()}
    end_sq = full["grad_sq"] + 2 * full["grad_diff"] + full["diff_sq"]
    moved = full["delta_sq"] > 0
    secant = np.sqrt(full["diff_sq"][moved] / full["delta_sq"][moved])
    smooth, bound = float(secant.max(initial=0.0)), float(np.sqrt(max(full["grad_sq"].max(), end_sq.max())))
    return GradientReadings(steps[good], lr[good], full, smooth, bound)


def accumulated(r: GradientReadings) -> Array:
    """||Delta_i|| from scalars, for equal strides: the error identity says Delta_i = -delta / eta - t g."""
    v, t, eta = r.value, r.steps, r.lr
    square = v["delta_sq"] / eta**2 + 2 * t * v["grad_delta"] / eta + t**2 * v["grad_sq"]
    return np.sqrt(np.clip(square, 0, None))


def predicted_work(r: GradientReadings, curve: str) -> Array:
    """The worth of the local work along v by the curve through the first and the last gradient."""
    start = -r.lr * r.value["grad_dir"]
    end = start - r.lr * r.value["diff_dir"]
    t = r.steps
    if curve == "linear":
        return t * start - (t - 1) / 2 * (start - end)
    left = np.clip(np.divide(end, start, out=np.ones_like(end), where=start != 0), 0.02, 0.999)
    rho = left ** (1 / t)
    return np.asarray(start * (1 - left) / (1 - rho))


def _judge_from_below(claims: Sequence[tuple[Statement, Sides]], untold: str) -> list[ClaimResult]:
    """Bounds that grow with L and G hold, or larger constants would have to be known. `untold` says why
    nothing can be told of them, if so."""
    results = []
    for statement, sides in claims:
        result = judge(statement, sides, "readings", ROUNDING, BELOW)
        short = f"L and G as read fall short in {result.violated:.1%} of {result.checked}"
        why = untold or f"cannot be told: {short}; larger ones or noise would explain it"
        fails = bool(untold) or result.holds is False
        results.append(undecided(statement, f"{statement.text}: {why}") if fails else result)
    return results


def _curvature(r: GradientReadings, facts: MethodFacts) -> list[ClaimResult]:
    """What the gradient's change shows, whatever the local steps were."""
    constants = f"L = {r.smooth:.3g}, G = {r.bound:.3g}"
    moved, change = np.sqrt(r.value["delta_sq"]), np.sqrt(r.value["diff_sq"])
    smooth = Statement("smoothness", "A1", "printed", f"|dg| <= L |delta|, {constants}")
    step = Statement("step size", "A1, all proofs", "corrected", f"eta <= 2/L, {constants}")
    # L is shown from below, so a step beyond 2/L is beyond the true one, too; a cap alone tells nothing
    size = judge(step, Sides(r.lr * r.smooth, np.full(r.lr.shape, 2.0)), "readings", ROUNDING, BELOW)
    if facts.strides and size.holds is False:
        size = undecided(step, f"{step.text}: {STRIDES}, which exceeds it")
    sides = Sides(change, r.smooth * moved)
    return [judge(smooth, sides, "readings", ROUNDING, "by construction of L"), size]


def _lengths(r: GradientReadings, facts: MethodFacts) -> list[ClaimResult]:
    """How far t steps can go, and how far the gradient can turn on the way."""
    far, eta = r.steps * r.lr * r.bound, "cap" if facts.strides else "eta"
    moved, change = np.sqrt(r.value["delta_sq"]), np.sqrt(r.value["diff_sq"])
    displacement = Statement("displacement", "A2", "corrected", f"|delta| <= {eta} t G")
    deviation = Statement("gradient deviation", "A1, A2", "corrected", f"|dg| <= {eta} t L G")
    claims = [(displacement, Sides(moved, far)), (deviation, Sides(change, r.smooth * far))]
    return _judge_from_below(claims, "" if facts.plain else CORRECTS)


def _drifts(r: GradientReadings, facts: MethodFacts) -> list[ClaimResult]:
    """A4, with the drift from scalars: only where all steps are of one length and along the gradient."""
    t, own = r.steps, np.sqrt(r.value["grad_sq"])
    pairs = np.where(t > 1, t * (t - 1) / 2, np.inf)  # one step has no drift: nothing to judge
    each, drift = r.smooth * pairs, accumulated(r)
    claims = [
        ("drift accumulation", "printed", "L G", each * r.bound),
        ("drift accumulation", "corrected", "eta L G", each * r.lr * r.bound),
        ("drift, own gradient", "corrected", "eta L |g_i|", each * r.lr * own),
    ]
    sides = [
        (Statement(name, "A4", form, f"|Delta_i| <= {most} t(t-1)/2"), Sides(drift, bound, t * own))
        for name, form, most, bound in claims
    ]
    return _judge_from_below(sides, _untold(facts))


def _untold(facts: MethodFacts) -> str:
    """Why nothing can be told of claims that need steps of one length along the gradient."""
    return STRIDES if facts.strides else "" if facts.plain else CORRECTS


def _curves(r: GradientReadings, facts: MethodFacts) -> list[ClaimResult]:
    actual = r.value["delta_dir"]
    results = []
    for curve in ("linear", "geometric"):
        text = f"{curve} curve against the work done along the last global step"
        outcome = _untold(facts)
        if not outcome:
            off = np.abs(predicted_work(r, curve) - actual)
            usable = (np.abs(actual) > 0) & (r.steps > 1) & np.isfinite(off)  # one step is predicted exactly
            share = np.median(off[usable] / np.abs(actual[usable])) if np.any(usable) else float("nan")
            outcome = f"median client off by {share:.2%}; a measure, not a bound"
        statement = Statement("worth of steps", "docs/theory.md", "corrected", text)
        results.append(undecided(statement, f"{text}: {outcome}"))
    return results


def from_readings(rows: Sequence[RoundRecord], facts: MethodFacts) -> list[ClaimResult]:
    """Claims on gradients and displacements, as far as the method's steps allow."""
    r = gather(rows)
    if r is None:
        why = "cannot be told: the run kept no finite readings; record it with readings on"
        return [undecided(Statement("smoothness, drift", "A1, A2, A4", "printed", ""), why)]
    return [*_curvature(r, facts), *_lengths(r, facts), *_drifts(r, facts), *_curves(r, facts)]
