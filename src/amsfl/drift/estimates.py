"""From GDA readings to gain and drift: what a client's first step is worth, and how fast that fades.

A step along client i's gradient is worth what it has in common with where all clients go together:
gain a_i = -<g_i, v> / ||v||, v the last global step. After t steps the same minibatch's gradient has
kept the part r_i = <g_i + dg_i, v> / <g_i, v> of that, so a step keeps rho_i = r_i^(1/t) of the one
before: worth a_i rho_i^s, the scheduler's geometric curve with drift d_i = -a_i ln rho_i. Before the
first global step, v = -g_i.
"""

from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading

Floats = np.ndarray[Any, np.dtype[np.float64]]

SMOOTHING = 0.7  # how much of an old estimate stays each round
KEPT = (0.02, 0.999)  # a minibatch's reading of r outside of this is noise


class Estimates(NamedTuple):
    """The estimator's memory. NaN: this client was never read."""

    gain: Floats
    log_rho: Floats


def start(clients: int) -> Estimates:
    return Estimates(np.full(clients, np.nan), np.full(clients, np.nan))


def update(old: Estimates, cohort: Any, steps: Any, reading: Reading) -> Estimates:
    """Fold in one round's readings; absent clients and non-finite readings change nothing."""
    gain, log_rho = read(reading, np.asarray(steps))
    return Estimates(_blend(old.gain, cohort, gain), _blend(old.log_rho, cohort, log_rho))


def read(reading: Reading, steps: Any) -> tuple[Floats, Floats]:
    """Gain and log rho from one round's scalars alone."""
    fields = Reading(*(np.asarray(field, float) for field in reading))
    with np.errstate(divide="ignore", invalid="ignore"):
        common = fields.grad_dir != 0
        length = np.sqrt(fields.delta_sq)
        before = np.where(common, -fields.grad_dir, fields.grad_sq)
        after = before + np.where(common, -fields.diff_dir, fields.grad_diff)
        kept = np.clip(after / before, *KEPT)
        gain = np.where(length > 0, np.maximum(before, 0), np.nan)
        return gain, np.where(before > 0, np.log(kept), np.log(KEPT[0])) / steps


def coefficients(estimates: Estimates, cohort: Any) -> tuple[Floats, Floats]:
    """gain and drift for the scheduler; clients never read get the mean of the others."""
    gain, log_rho = (_filled(part)[cohort] for part in estimates)
    gain = np.maximum(gain, 1e-3 * max(gain.max(initial=0.0), 1e-12))
    return gain, -gain * log_rho


def known(estimates: Estimates) -> bool:
    """Whether any client was ever read."""
    return bool(np.isfinite(estimates.gain).any())


def _blend(old: Floats, cohort: Any, fresh: Floats) -> Floats:
    here = old[cohort]
    mixed = np.where(np.isfinite(here), SMOOTHING * here + (1 - SMOOTHING) * fresh, fresh)
    result = old.copy()
    result[cohort] = np.where(np.isfinite(fresh), mixed, here)
    return result


def _filled(part: Floats) -> Floats:
    seen = np.isfinite(part)
    return np.where(seen, part, part[seen].mean() if seen.any() else 1.0)
