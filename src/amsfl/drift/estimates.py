"""From GDA readings to gain and fading: what a client's first step is worth, and how fast that fades.

    gain_i = <d_i, v>/t_i over the cohort's mean of its size, raised to 0, plus 0.3
    fade_i = -ln(1 + <g, h - g>/||g||^2)/(t_i eta), eta the rate

v is the last global step: a step is worth what it has in common with where all clients go together. The
server has d_i and v, so gains cost nothing and say what arrived, whatever happened to it on the way. After t
steps the first minibatch's gradient g_i has kept the part 1 + <g, h - g>/||g||^2 of itself, h its gradient
then; worth fades by the same factor every step. A longer step drifts further, so what is remembered is the
fading per unit of learning rate. A client that gives no such reading fades like the mean of those that do.
One round's gains are mostly noise, so everybody is worth something beforehand.
"""

from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Array

Floats = np.ndarray[Any, np.dtype[np.float64]]

UNREAD = -np.log(1 - NUMBERS.least)  # fading of a step while nobody was ever read: it keeps nine tenths


class Estimates(NamedTuple):
    """The estimator's memory, one entry per client. NaN: this client was never read."""

    gain: Floats
    fading: Floats  # per step and unit of learning rate


def start(clients: int) -> Estimates:
    return Estimates(np.full(clients, np.nan), np.full(clients, np.nan))


def update(
    old: Estimates, cohort: Array, steps: Array, lr: Array | float, reading: Reading, weights: Array
) -> Estimates:
    """Fold in one round's readings; absent clients and non-finite readings change nothing.

    Many federations at once: memories [..., clients]; their cohorts and all that is theirs [..., n].
    """
    steps = np.asarray(steps, float)
    gain, kept = gain_and_kept(reading, steps, np.asarray(weights, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        fading = -np.log(kept) / (steps * lr)
    return Estimates(_blend(old.gain, cohort, gain), _blend(old.fading, cohort, fading))


def gain_and_kept(reading: Reading, steps: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Relative gain and kept part of every client, from one round's scalars alone; NaN where nothing says."""
    change, square, along = (
        np.asarray(field, float) for field in (reading.grad_diff, reading.grad_sq, reading.delta_dir)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip(1 + change / square, NUMBERS.least, 1.0)
        gain = along / steps
        whole = np.isfinite(gain)
        unknown = ~np.any(whole & (gain != 0), -1, keepdims=True)  # no v yet
        mean = sum_of(weights * np.abs(gain), whole) / sum_of(weights, whole)
        return np.where(whole, np.where(unknown, 1.0, gain / mean[..., None]), np.nan), kept


def sum_of(values: Floats, some: Array) -> Floats:
    """The last axis summed over `some` of it, as if the others were not there: zeros for them would round
    otherwise."""
    if some.all():
        return np.asarray(values.sum(-1))
    rows = zip(values.reshape(-1, values.shape[-1]), some.reshape(-1, some.shape[-1]), strict=True)
    return np.array([row[here].sum() for row, here in rows]).reshape(values.shape[:-1])


def gain_and_fading(estimates: Estimates, cohort: Array, lr: float) -> tuple[Floats, Floats]:
    """Of a step at a learning rate, as the plan takes them; clients never read are taken as the mean."""
    gain = NUMBERS.beforehand + np.maximum(_filled(estimates.gain, 1.0)[cohort], 0.0)
    return gain, _filled(estimates.fading * lr, UNREAD)[cohort]


def _blend(old: Floats, cohort: Array, fresh: Floats) -> Floats:
    cohort = np.asarray(cohort)
    here = np.take_along_axis(old, cohort, -1)
    mixed = np.where(np.isfinite(here), NUMBERS.memory * here + (1 - NUMBERS.memory) * fresh, fresh)
    result = old.copy()
    np.put_along_axis(result, cohort, np.where(np.isfinite(fresh), mixed, here), -1)
    return result


def _filled(part: Floats, otherwise: float) -> Floats:
    read = np.isfinite(part)
    if read.all():
        return part
    return np.where(read, part, part[read].mean() if read.any() else otherwise)
