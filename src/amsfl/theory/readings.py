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
    columns: dict[str, list[float]] = {name: [] for name in ("steps", "lr", *FIELDS)}
    for row in rows:
        if not all(name in row.readings for name in FIELDS):
            continue
        columns["steps"] += [float(t) for t in row.steps]
        columns["lr"] += [row.lr or float("nan")] * len(row.steps)
        for name in FIELDS:
            columns[name] += [float("nan") if x is None else float(x) for x in row.readings[name]]
    full = {name: np.array(xs) for name, xs in columns.items()}
    good = np.all([np.isfinite(full[name]) for name in FIELDS], axis=0) & (full["grad_sq"] > 0)
    if not np.any(good):
        return None
    full = {name: x[good] for name, x in full.items()}
    end_sq = full["grad_sq"] + 2 * full["grad_diff"] + full["diff_sq"]
    moved = full["delta_sq"] > 0
    secant = np.sqrt(full["diff_sq"][moved] / full["delta_sq"][moved])
    return GradientReadings(
        full.pop("steps"),
        full.pop("lr"),
        full,
        float(secant.max(initial=0.0)),
        float(np.sqrt(max(full["grad_sq"].max(), end_sq.max()))),
    )


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


def _judge_from_below(statement: Statement, sides: Sides) -> ClaimResult:
    """A bound that grows with L and G: it holds, or larger constants would have to be known."""
    result = judge(statement, sides, "readings", ROUNDING, BELOW)
    if result.holds is not False:
        return result
    short = f"L and G as read fall short in {result.violated:.1%} of {result.checked}"
    why = f"{statement.text}: cannot be told: {short}; larger ones or noise would explain it"
    return undecided(statement, why)


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
    claims = [
        (Statement("displacement", "A2", "corrected", f"|delta| <= {eta} t G"), Sides(moved, far)),
        (
            Statement("gradient deviation", "A1, A2", "corrected", f"|dg| <= {eta} t L G"),
            Sides(change, r.smooth * far),
        ),
    ]
    if not facts.plain:
        return [undecided(statement, f"{statement.text}: {CORRECTS}") for statement, _ in claims]
    return [_judge_from_below(*claim) for claim in claims]


def _drifts(r: GradientReadings, facts: MethodFacts) -> list[ClaimResult]:
    """A4, with the drift from scalars: only where all steps are of one length and along the gradient."""
    t, v = r.steps, r.value
    pairs = np.where(t > 1, t * (t - 1) / 2, np.inf)  # one step has no drift: nothing to judge
    each, name = r.smooth * pairs, "drift accumulation"
    claims = [
        (Statement(name, "A4", "printed", "|Delta_i| <= L G t(t-1)/2"), each * r.bound),
        (Statement(name, "A4", "corrected", "|Delta_i| <= eta L G t(t-1)/2"), each * r.lr * r.bound),
        (
            Statement("drift, own gradient", "A4", "corrected", "|Delta_i| <= eta L |g_i| t(t-1)/2"),
            each * r.lr * np.sqrt(v["grad_sq"]),
        ),
    ]
    if facts.strides or not facts.plain:
        why = STRIDES if facts.strides else CORRECTS
        return [undecided(statement, f"{statement.text}: {why}") for statement, _ in claims]
    drift, size = accumulated(r), t * np.sqrt(v["grad_sq"])
    return [_judge_from_below(statement, Sides(drift, most, size)) for statement, most in claims]


def _curves(r: GradientReadings, facts: MethodFacts) -> list[ClaimResult]:
    actual = r.value["delta_dir"]
    results = []
    for curve in ("linear", "geometric"):
        text = f"{curve} curve against the work done along the last global step"
        if facts.strides or not facts.plain:
            outcome = STRIDES if facts.strides else CORRECTS
        else:
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
