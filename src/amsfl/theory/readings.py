"""What an ordinary run's readings can tell of the paper's claims, and what they cannot.

A recorded run knows no w*, no Hessian and no constant. L and G are estimated from the readings
themselves, so a claim that holds here is consistent with the run, and one that fails is refuted
for every constant the run itself supports.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.core.records import Array
from amsfl.theory.claim import ClaimResult, Sides, result, untold

FIELDS = ("grad_sq", "diff_sq", "delta_sq", "grad_diff", "grad_delta", "grad_dir", "diff_dir", "delta_dir")
ROUNDING = 2e-3  # engines may work in float32 and ||Delta_i|| comes out of a difference of squares
ESTIMATE = "L and G are estimates from this run's readings"
NOISE = "with minibatches the drift includes sampling noise"
CLOSE = 0.1  # a predicted round time within a tenth counts as right

Row = Mapping[str, Any]


class Readings(NamedTuple):
    """All clients of all rounds, flattened; rows with a reading that is not finite are left out."""

    steps: Array
    lr: Array
    value: dict[str, Array]
    smooth: float  # largest ||dg|| / ||delta||
    bound: float  # largest gradient norm at either end of the local work


def gather(rows: Sequence[Row]) -> Readings | None:
    """None if the run kept no readings."""
    columns: dict[str, list[float]] = {name: [] for name in ("steps", "lr", *FIELDS)}
    for row in rows:
        read = row.get("readings") or {}
        if not all(name in read for name in FIELDS):
            continue
        columns["steps"] += [float(t) for t in row["steps"]]
        columns["lr"] += [float(row["lr"])] * len(row["steps"])
        for name in FIELDS:
            columns[name] += [float("nan") if x is None else float(x) for x in read[name]]
    full = {name: np.array(xs) for name, xs in columns.items()}
    good = np.all([np.isfinite(x) for x in full.values()], axis=0) & (full["lr"] > 0) & (full["grad_sq"] > 0)
    if not np.any(good):
        return None
    full = {name: x[good] for name, x in full.items()}
    end_sq = full["grad_sq"] + 2 * full["grad_diff"] + full["diff_sq"]
    moved = full["delta_sq"] > 0
    secant = np.sqrt(full["diff_sq"][moved] / full["delta_sq"][moved])
    return Readings(
        full.pop("steps"),
        full.pop("lr"),
        full,
        float(secant.max(initial=0.0)),
        float(np.sqrt(max(full["grad_sq"].max(), end_sq.max()))),
    )


def accumulated(r: Readings) -> Array:
    """||Delta_i|| from scalars: the error identity says Delta_i = -delta / eta - t g."""
    v, t, eta = r.value, r.steps, r.lr
    square = v["delta_sq"] / eta**2 + 2 * t * v["grad_delta"] / eta + t**2 * v["grad_sq"]
    return np.sqrt(np.clip(square, 0, None))


def foretold(r: Readings, curve: str) -> Array:
    """What the curve through the first and the last gradient says the local work is worth along v."""
    start = -r.lr * r.value["grad_dir"]
    end = start - r.lr * r.value["diff_dir"]
    t = r.steps
    if curve == "linear":
        return t * start - (t - 1) / 2 * (start - end)
    left = np.clip(np.divide(end, start, out=np.ones_like(end), where=start != 0), 0.02, 0.999)
    rho = left ** (1 / t)
    return start * (1 - left) / (1 - rho)


def _bounds(r: Readings, plain: bool) -> list[ClaimResult]:
    t, eta, v = r.steps, r.lr, r.value
    pairs = np.where(t > 1, t * (t - 1) / 2, np.inf)  # one step has no drift: nothing to judge
    note = ESTIMATE if plain else f"{ESTIMATE}; the method corrects its gradients, which these bounds ignore"
    size = t * np.sqrt(v["grad_sq"])
    moved, ended = np.sqrt(v["delta_sq"]), np.sqrt(v["diff_sq"])
    said = f"L = {r.smooth:.3g}, G = {r.bound:.3g}"

    def judge(name: str, where: str, form: str, text: str, sides: Sides, more: str = "") -> ClaimResult:
        said = f"{note}; {more}" if more else note
        return result(name, where, form, text, sides, "readings", ROUNDING, said)

    return [
        judge(
            "smoothness",
            "A1",
            "printed",
            f"|dg| <= L |delta|, {said}",
            Sides(ended, r.smooth * moved),
            "by construction of L",
        ),
        judge(
            "step size",
            "A1, all proofs",
            "corrected",
            f"eta <= 2/L, {said}",
            Sides(eta * r.smooth, np.full(eta.shape, 2.0)),
        ),
        judge("displacement", "A2", "corrected", "|delta| <= eta t G", Sides(moved, eta * t * r.bound)),
        judge(
            "gradient deviation",
            "A1, A2",
            "corrected",
            "|dg| <= eta t L G",
            Sides(ended, eta * t * r.smooth * r.bound),
        ),
        judge(
            "drift accumulation",
            "A4",
            "printed",
            "|Delta_i| <= L G t(t-1)/2",
            Sides(accumulated(r), r.smooth * r.bound * pairs, size),
            NOISE,
        ),
        judge(
            "drift accumulation",
            "A4",
            "corrected",
            "|Delta_i| <= eta L G t(t-1)/2",
            Sides(accumulated(r), eta * r.smooth * r.bound * pairs, size),
            NOISE,
        ),
        judge(
            "drift, own gradient",
            "A4",
            "corrected",
            "|Delta_i| <= eta L |g_i| t(t-1)/2",
            Sides(accumulated(r), eta * r.smooth * np.sqrt(v["grad_sq"]) * pairs, size),
            NOISE,
        ),
    ]


def _curves(r: Readings) -> list[ClaimResult]:
    actual = r.value["delta_dir"]
    rows = []
    for curve in ("linear", "geometric"):
        off = np.abs(foretold(r, curve) - actual)
        told = (np.abs(actual) > 0) & (r.steps > 1)  # one step is foretold exactly
        share = np.median(off[told] / np.abs(actual[told])) if np.any(told) else float("nan")
        rows.append(
            untold(
                "worth of steps",
                "docs/theory.md",
                "corrected",
                f"{curve} curve against the work done along the last global step: "
                f"median client off by {share:.2%}; a measure, not a bound",
            )
        )
    return rows


def from_readings(rows: Sequence[Row], plain: bool) -> list[ClaimResult]:
    """Claims on gradients and displacements; `plain` if clients take uncorrected gradient steps."""
    r = gather(rows)
    if r is None:
        return [
            untold(
                "smoothness, drift",
                "A1, A2, A4",
                "printed",
                "cannot be told: the run kept no finite readings; record it with readings on",
            )
        ]
    return _bounds(r, plain) + _curves(r)
