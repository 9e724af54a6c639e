"""What a plan believes of what clients say, where the server has a rule over their uploads.

Losses, gradient norms, seconds and rows are a client's own word. A lie is cut to a bound around the cohort's
median, which less than half of the clients cannot move: it is worth a constant, not a federation. But honest
clients differ, and AMSFL lives by that, so a server doubts them only under a rule; docs/robust.md.
"""

from bisect import bisect_left

import numpy as np

from amsfl.core import Combine, Reading
from amsfl.core.records import Array
from amsfl.planning.problem import Floats

FEWEST = 3  # of two clients none is in the middle
FAR = 10.0  # times the median: as far as losses and gains are believed
MOST = 0.75  # of a cohort, whose best sets what the rest may claim: a fifth may lie, or whom a rule doubts
BETTER, LARGER = 1.5, 2.0  # than that: steps and speed, rows


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
    """Held-back losses and gains by their median size, as far as they move a plan further than what is capped
    there; what is not finite stays so and is ignored."""
    held, along = (_near(np.array(each, float)) for each in (reading.held_loss, reading.delta_dir))
    return reading._replace(held_loss=held, delta_dir=along)


def _near(values: Floats) -> Floats:
    """No larger than FAR times the median of what is finite and not zero, by size."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if len(sizes) < FEWEST:
        return values
    most = FAR * np.median(sizes)
    return np.clip(values, -most, most)
