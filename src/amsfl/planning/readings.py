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

from typing import NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Array
from amsfl.planning.problem import Floats

UNREAD = -np.log(1 - NUMBERS.least)  # fading of a step while nobody was ever read: it keeps nine tenths


class Estimates(NamedTuple):
    """What is remembered, one entry per client. NaN: this client was never read."""

    gain: Floats
    fading: Floats  # per step and unit of learning rate


class Means(NamedTuple):
    """What the printed Algorithm 1 takes for constants, as last read; None: never."""

    slope: float | None = None  # ||g||
    curvature: float | None = None  # ||h - g|| / ||d||
    convexity: float | None = None  # -<g, h - g> / (||g||^2 t eta)


def new_estimates(clients: int) -> Estimates:
    return Estimates(np.full(clients, np.nan), np.full(clients, np.nan))


def update(
    old: Estimates, cohort: Array, steps: Array, lr: Array | float, reading: Reading, weights: Array
) -> Estimates:
    """Fold in one round's readings; absent clients and non-finite readings change nothing."""
    steps = np.asarray(steps, float)
    gain, kept = gain_and_kept(reading, steps, np.asarray(weights, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        fading = -np.log(kept) / (steps * lr)
    return Estimates(_blend(old.gain, cohort, gain), _blend(old.fading, cohort, fading))


def gain_and_kept(reading: Reading, steps: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Relative gain and kept part of every client, from one round's scalars alone; NaN where nothing says."""
    change, square, along = _columns(reading.grad_diff, reading.grad_sq, reading.delta_dir)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip(1 + change / square, NUMBERS.least, 1.0)
        gain = along / steps
        size = _mean(np.abs(gain), weights)
        if not size:  # no v yet
            return np.where(np.isfinite(gain), 1.0, np.nan), kept
        return np.where(np.isfinite(gain), gain / size, np.nan), kept


def gain_and_fading(estimates: Estimates, cohort: Array, lr: float) -> tuple[Floats, Floats]:
    """Of a step at a learning rate, as the plan takes them; clients never read are taken as the mean."""
    gain = NUMBERS.beforehand + np.maximum(_filled(estimates.gain, 1.0)[cohort], 0.0)
    return gain, _filled(estimates.fading * lr, UNREAD)[cohort]


def new_means(old: Means, weights: Array, steps: Array, lr: Array | float, reading: Reading) -> Means:
    """This round's means by the data's shares; what nobody read stays as it was."""
    weights, steps = _columns(weights, steps)
    square, change, moved, along = _columns(
        reading.grad_sq, reading.diff_sq, reading.delta_sq, reading.grad_diff
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.sqrt(square), np.sqrt(change / moved), np.maximum(-along / (square * steps * lr), 0.0)
        fresh = [_mean(np.where(values == 0, np.nan, values), weights) for values in each]
    return Means(*(now or before for now, before in zip(fresh, old, strict=True)))


def _columns(*fields: Array) -> list[Floats]:
    return [np.asarray(field, float) for field in fields]


def _mean(values: Floats, weights: Floats) -> float | None:
    """Of those that are finite; None where none is."""
    some = np.isfinite(values)
    return float((weights[some] * values[some]).sum() / weights[some].sum()) if some.any() else None


def _blend(old: Floats, cohort: Array, fresh: Floats) -> Floats:
    here = old[cohort]
    mixed = np.where(np.isfinite(here), NUMBERS.memory * here + (1 - NUMBERS.memory) * fresh, fresh)
    result = old.copy()
    result[cohort] = np.where(np.isfinite(fresh), mixed, here)
    return result


def _filled(part: Floats, otherwise: float) -> Floats:
    read = np.isfinite(part)
    if read.all():
        return part
    return np.where(read, part, part[read].mean() if read.any() else otherwise)
