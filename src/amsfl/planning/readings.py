"""From GDA readings to gain and fading: what a client's first step is worth, and how fast that fades.

    gain_i = <d_i, v>/t_i over the cohort's mean of its size, raised to 0, plus 0.3
    fade_i = -ln(1 + <g, h - g>/||g||^2)/(t_i eta), eta the rate

v is the last global step: a step is worth what it has in common with where all clients go together. The
server has d_i and v, so gains cost nothing and say what arrived, whatever happened to it on the way. After t
steps the first minibatch's gradient g_i has kept the part 1 + <g, h - g>/||g||^2 of itself, h its gradient
then; worth fades by the same factor every step. A longer step drifts further, so what is remembered is the
fading per unit of learning rate. A client that gives no such reading fades like the mean of those that do.
One round's gains are mostly noise, so everybody is worth something beforehand.

Losses, gradient norms, seconds and rows are a client's own word. A lie is cut to a bound around the cohort's
median, which less than half of the clients cannot move: it is worth a constant, not a federation. But honest
clients differ, and AMSFL lives by that, so a server doubts them only where it has a rule over their uploads
(planner.py); docs/robust.md has what lies win before and after.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from amsfl.core import Combine, Reading
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Array
from amsfl.planning.problem import Floats

UNREAD = -np.log(1 - NUMBERS.least)  # fading of a step while nobody was ever read: it keeps nine tenths

FEWEST = 3  # of two clients none is in the middle
FAR = 10.0  # times the median: as far as losses and norms are believed
FAR_SQ = FAR**2  # squares of norms
MOST = 0.75  # of a cohort, whose best sets what the rest may claim: a fifth may lie, or whom a rule doubts
BETTER, LARGER = 1.5, 2.0  # than that: steps and speed, rows


class Estimates(NamedTuple):
    """What is remembered, one entry per client. NaN: this client was never read."""

    gain: Floats
    fading: Floats  # per step and unit of learning rate


# what the printed Algorithm 1 takes for constants, as last read: ||g||, ||h - g|| / ||d||,
# -<g, h - g> / (||g||^2 t eta); None: never
Means = tuple[float | None, float | None, float | None]
UNKNOWN: Means = (None, None, None)


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
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip(1 + np.divide(reading.grad_diff, reading.grad_sq), NUMBERS.least, 1.0)
        gain = np.divide(reading.delta_dir, steps)
        size = mean_of_known(np.abs(gain), weights)  # 0: no v yet, so all are worth the same
        return np.where(np.isfinite(gain), gain / size if size else 1.0, np.nan), kept


def gain_and_fading(estimates: Estimates, cohort: Array, lr: float) -> tuple[Floats, Floats]:
    """Of a step at a learning rate, as the plan takes them; clients never read are taken as the mean."""
    gain = NUMBERS.beforehand + np.maximum(_filled(estimates.gain, 1.0)[cohort], 0.0)
    return gain, _filled(estimates.fading * lr, UNREAD)[cohort]


def new_means(old: Means, weights: Floats, steps: Array, lr: Array | float, reading: Reading) -> Means:
    """This round's means by the data's shares; what nobody read stays as it was."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope, curved = np.sqrt(reading.grad_sq), np.sqrt(reading.diff_sq / reading.delta_sq)
        convex = np.maximum(-reading.grad_diff / (reading.grad_sq * steps * lr), 0.0)
    means = []
    for values, before in zip((slope, curved, convex), old, strict=True):
        means.append(mean_of_known(np.where(values == 0, np.nan, values), weights) or before)
    return tuple(means)  # type: ignore[return-value]


def mean_of_known(values: Floats, weights: Floats) -> float | None:
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


def honest_share(clients: int, attackers: float) -> float:
    """The share of a cohort whose best is taken for honest: MOST, or less where more are doubted; half."""
    doubted = np.ceil(attackers * clients) if attackers < 1 else attackers
    return float(np.clip((clients - 1 - doubted) / (clients - 1), 0.5, MOST))


def plausible_rows(weights: Array, rule: Combine) -> Floats:
    """Shares of the data: nobody has LARGER times more than all but the largest quarter. A plan goes by what
    will count, so they are what the rule then makes of them."""
    values = np.asarray(weights, float)
    if len(values) >= FEWEST:
        most = np.quantile(values, honest_share(len(values), rule.attackers))
        values = np.asarray(np.minimum(values, LARGER * most))
    return values if rule.capped is None else np.asarray(rule.capped(values / values.sum()) * values.sum())


def plausible_seconds(step_seconds: Array, attackers: float = 0.0) -> Floats:
    """Nobody is BETTER times as fast as all but the fastest quarter, nor FAR times slower than most."""
    values = np.asarray(step_seconds, float)
    if len(values) < FEWEST:
        return values
    fastest = np.quantile(values, 1 - honest_share(len(values), attackers))
    return np.asarray(np.clip(values, fastest / BETTER, np.median(values) * FAR))


def plausible_worth(gain: Floats, fading: Floats, attackers: float = 0.0) -> tuple[Floats, Floats]:
    """Gain and fading as a plan takes them: nobody's steps are worth BETTER times more, or fade so much less,
    than those of all but the best quarter. One who lies is planned as the best of the others are."""
    if len(gain) < FEWEST:
        return gain, fading
    most = honest_share(len(gain), attackers)
    slowest = np.quantile(fading, 1 - most) / BETTER
    return np.minimum(gain, BETTER * np.quantile(gain, most)), np.maximum(fading, slowest)


def plausible_changes(changes: Floats, attackers: float = 0.0) -> Floats:
    """Changes of held-back losses: as many of the highest and lowest as may lie say what the next does."""
    if len(changes) < FEWEST:
        return changes
    most = honest_share(len(changes), attackers)
    return np.asarray(np.clip(changes, *np.quantile(changes, [1 - most, most])))


def plausible_steps(steps: Array) -> Array:
    """A plan in which nobody takes more than BETTER times the mean of all, whatever was claimed.

    Then any k of n clients have at most BETTER k/n of all steps. The cap is the largest c with
    c <= BETTER mean_i min(t_i, c).
    """
    given = np.asarray(steps)
    if len(given) < FEWEST:
        return given
    caps = range(1, int(given.max()) + 1)
    over = bisect_left(caps, True, key=lambda cap: cap > BETTER * np.minimum(given, cap).mean())
    return np.minimum(given, max(over, 1))


def plausible_readings(reading: Reading) -> Reading:
    """A cohort's readings cut to what its middle makes plausible; what is not finite stays so and is ignored.

    Norms and losses go by their medians. Products of two vectors are no larger than their norms allow, and
    those with the last global step go by their median size.
    """
    reported = Reading(*(np.array(field, float) for field in reading))
    with np.errstate(all="ignore"):
        grad, diff = _between(reported.grad_sq, FAR_SQ), _between(reported.diff_sq, FAR_SQ)
        return reported._replace(
            loss=np.maximum(_at_most(reported.loss, FAR), 0.0 * reported.loss),
            grad_sq=grad,
            diff_sq=diff,
            grad_diff=_product(reported.grad_diff, grad, diff),
            held_loss=_at_most(reported.held_loss, FAR),
            delta_sq=_between(reported.delta_sq, FAR_SQ),
            delta_dir=_sized(reported.delta_dir),
        )


def _middle(values: Floats) -> float | None:
    """The median of what is finite and not zero, by size; None where too few are."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    return float(np.median(sizes)) if len(sizes) >= FEWEST else None


def _at_most(values: Floats, far: float) -> Floats:
    middle = _middle(values)
    return values if middle is None else np.minimum(values, middle * far)


def _between(values: Floats, far: float) -> Floats:
    """Squares: zero stays zero, as it is where nothing was read."""
    middle = _middle(values)
    if middle is None:
        return values
    return np.where(values == 0, values, np.clip(values, middle / far, middle * far))


def _sized(values: Floats) -> Floats:
    middle = _middle(values)
    return values if middle is None else np.clip(values, -middle * FAR, middle * FAR)


def _product(values: Floats, one: Floats, other: Floats) -> Floats:
    """<a, b> with |<a, b>| <= ||a|| ||b||, rounding aside."""
    most = np.sqrt(one * other) * (1 + 1e-3)
    return np.clip(values, -most, most)
