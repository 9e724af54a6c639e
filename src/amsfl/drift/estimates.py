"""From GDA readings to gain and fading: what a client's first step is worth, and how fast that fades.

A step of client i is worth what it has in common with where all clients go together: gain a_i is the part
of its delta along v, the last global step, for each of its steps. After t steps the first minibatch's
gradient g_i has kept the part R_i = <g_i + dg_i, g_i> / ||g_i||^2 of itself. Worth fades by the same factor
each step, so step s is worth a_i R_i^(s/t): the scheduler's fading is -ln(R_i) / t.
A longer step drifts further, so what is remembered is the fading per unit of learning rate.
Gains are kept relative to the cohort's mean: gradients shrink as training goes on, their ratios do not.
One round's gains are mostly noise, and where v was too long all of them point the other way. So everybody is
worth something beforehand: BEFOREHAND of the mean, whatever is read.
"""

from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.core.records import Array

Floats = np.ndarray[Any, np.dtype[np.float64]]

SMOOTHING = 0.7  # how much of an old estimate stays each round
KEPT = (0.02, 0.999)  # a minibatch's reading of R outside of this is noise
FADES = (1e-3, 4.0)  # what one step can lose, as -ln: more or less than this no reading tells
UNREAD = 0.105  # of a client never read, -ln 0.9: a step keeps nine tenths of the one before
BEFOREHAND = 0.3  # of the mean gain that a client has without any reading, or whatever they say


class Estimates(NamedTuple):
    """The estimator's memory, one entry per client. NaN: this client was never read."""

    gain: Floats
    fading: Floats  # -ln(R) / (t lr)


def start(clients: int) -> Estimates:
    return Estimates(np.full(clients, np.nan), np.full(clients, np.nan))


def update(
    old: Estimates, cohort: Array, steps: Array, lr: Array, reading: Reading, weights: Array
) -> Estimates:
    """Fold in one round's readings; absent clients and non-finite readings change nothing.

    Many federations at once: memories [..., clients]; their cohorts and all that is theirs [..., n], lr, too,
    where it is not one number.
    """
    steps = np.asarray(steps, float)
    gain, remaining = gain_and_kept(reading, steps, np.asarray(weights, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        fading = -np.log(remaining) / (steps * lr)
    return Estimates(_blend(old.gain, cohort, gain), _blend(old.fading, cohort, fading))


def gain_and_kept(reading: Reading, steps: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Relative gain and kept part R of every client, from one round's scalars alone."""
    change, square, along = (
        np.asarray(field, float) for field in (reading.grad_diff, reading.grad_sq, reading.delta_dir)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        remaining = np.clip(1 + change / square, *KEPT)
        gain = along / steps
        whole = np.isfinite(gain)  # what is known of uploads alone has no R
        unknown = ~np.any(whole & (gain != 0), -1, keepdims=True)  # no v yet
        mean = sum_of(weights * np.abs(gain), whole) / sum_of(weights, whole)
        return np.where(whole, np.where(unknown, 1.0, gain / mean[..., None]), np.nan), remaining


def sum_of(values: Floats, some: Array) -> Floats:
    """The last axis summed over `some` of it, as if the others were not there: zeros for them would round
    otherwise."""
    if some.all():
        return np.asarray(values.sum(-1))
    rows = zip(values.reshape(-1, values.shape[-1]), some.reshape(-1, some.shape[-1]), strict=True)
    return np.array([row[here].sum() for row, here in rows]).reshape(values.shape[:-1])


def coefficients(estimates: Estimates, cohort: Array, lr: float | None) -> tuple[Floats, Floats]:
    """gain and fading at a learning rate, for the scheduler; clients never read are taken as the mean.

    Where no lr is known no client was read, and all are taken alike.
    """
    gain = BEFOREHAND + np.maximum(_filled(estimates.gain, 1.0)[cohort], 0.0)
    fading = _filled(estimates.fading * (1.0 if lr is None else lr), UNREAD)[cohort]
    return gain, np.minimum(np.maximum(fading, FADES[0]), FADES[1])


def _blend(old: Floats, cohort: Array, fresh: Floats) -> Floats:
    cohort = np.asarray(cohort)
    here = np.take_along_axis(old, cohort, -1)
    mixed = np.where(np.isfinite(here), SMOOTHING * here + (1 - SMOOTHING) * fresh, fresh)
    result = old.copy()
    np.put_along_axis(result, cohort, np.where(np.isfinite(fresh), mixed, here), -1)
    return result


def _filled(part: Floats, otherwise: float) -> Floats:
    read = np.isfinite(part)
    if read.all():
        return part
    return np.where(read, part, part[read].mean() if read.any() else otherwise)
