"""A run's steps under budgets of epsilon: how many for whom, and with how little noise.

A budget is a client's own, and what of it is left at the end was worth nothing: so every client's noise is
the least by which its steps of the whole run fit. Then more steps need more noise on each, and how much the
noise weighs against what is learnt does not depend on their number T, nearly: with deviation s ~ sqrt(T), d
numbers and b rows expected in a batch,

    r_i^2 = d s_i^2 / (b_i^2 T)

is what a client's noise is, squared, beside T steps as long as the clipping norm. So T_i says how much
client i counts, u_i ~ w_i T_i, and those u are best that minimise what noise and a shift away from the shares
w do:

    sum_i u_i^2 r_i^2 + APART sum_i (u_i - w_i)^2,  sum_i u_i = 1:   u_i = (APART w_i + p) / (APART + r_i^2)

Without noise these are the shares, and all take the same steps; with much of it u ~ 1/r^2, the weights of
least variance: small sites, whose noise is as large as that of large ones on less to learn, take few.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.privacy.accounting import Exposure, noise_for

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

APART = 0.003  # how far clients' aims lie apart, squared, beside steps as long as the clipping norm


class Spread(NamedTuple):
    """What a run asks of its clients."""

    steps: Ints  # of each in the whole run
    noise: Floats  # of each of these


class Worth(NamedTuple):
    """What decides how many steps are worth their noise."""

    shares: Floats  # of all data
    batches: Floats  # rows expected in each client's minibatches
    numbers: int  # of the model
    most: int  # steps of anybody


def spread_evenly(exposures: Sequence[Exposure], budgets: Sequence[float], steps: int) -> Spread:
    """The same number of steps for all, each with the least noise that its budget of epsilon allows."""
    return fit_noise(exposures, budgets, np.full(len(exposures), steps))


def spread_by_worth(
    exposures: Sequence[Exposure], budgets: Sequence[float], steps: int, worth: Worth
) -> Spread:
    """As many steps as are worth their noise, by weight as much learning as `steps` of all would be."""
    even = spread_evenly(exposures, budgets, steps)
    harm = worth.numbers * even.noise**2 / (worth.batches**2 * steps)
    counts = balance(worth.shares, harm)
    asked = np.clip(np.rint(steps * counts / worth.shares), 1, worth.most).astype(np.int64)
    return fit_noise(exposures, budgets, asked)


def balance(shares: Floats, harm: Floats) -> Floats:
    """The u of above: where a client would count less than nothing it counts nothing, and the others more."""
    counted = np.ones(len(shares), bool)
    while True:
        inside = np.where(counted, 1 / (APART + harm), 0)
        price = (1 - APART * (shares * inside).sum()) / inside.sum()
        counts = (APART * shares + price) * inside
        if (counts >= 0).all():
            return np.asarray(counts)
        counted &= counts > 0


def fit_noise(exposures: Sequence[Exposure], budgets: Sequence[float], steps: Ints) -> Spread:
    noise = [noise_for(*each) for each in zip(exposures, budgets, steps.tolist(), strict=True)]
    return Spread(steps, np.array(noise))
