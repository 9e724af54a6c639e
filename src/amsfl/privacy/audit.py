"""Audits: what an attacker can prove of the privacy that was lost.

`lower_bound` goes by one run with many canaries, `lower_bound_of_runs` by many runs with one canary each.

Every canary is in the training rows or not, by a coin of its own. Whoever guesses the coins better than
chance shows how much the model tells: with (epsilon, delta) no more than v of r guesses are right but for a
chance of

    p = P[Binomial(r, q) >= v] + 2 m delta max_i P[v > Binomial(r, q) >= v - i] / i

with q = 1/(1 + exp(-epsilon)), for m canaries; every epsilon for which that is below
1 - confidence is disproved.

Steinke, Nasr and Jagielski 2023, arXiv 2305.08846.
"""

from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

GUESSED = 0.4  # of the canaries: the most and the least likely ones; of the others nothing is said
HIGHEST = 50.0  # nobody asks further


class Guesses(NamedTuple):
    made: int
    right: int


def guess(scores: Floats, inside: Bools) -> Guesses:
    """The highest `scores` are said to be `inside`, as many of the lowest not; how many of that is right."""
    half = max(round(GUESSED * len(scores) / 2), 1)
    order = np.argsort(scores, kind="stable")
    right = inside[order[-half:]].sum() + (~inside[order[:half]]).sum()
    return Guesses(2 * half, int(right))


def chance(canaries: int, made: int, right: int, epsilon: float, delta: float) -> float:
    """The most that so many right guesses of those made are likely, if epsilon and delta hold; see above."""
    from scipy import stats

    share = 1 / (1 + np.exp(-epsilon))
    beta = stats.binom.sf(right - 1, made, share)
    below = np.cumsum(stats.binom.pmf(right - np.arange(1, right + 1), made, share))
    alpha = (below / np.arange(1, right + 1)).max() if right else 0.0
    return float(min(beta + 2 * canaries * delta * alpha, 1.0))


def lower_bound(canaries: int, guesses: Guesses, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that the guesses disprove; 0 where they disprove none."""
    low, high = 0.0, HIGHEST
    if chance(canaries, *guesses, low, delta) > 1 - confidence:
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        disproved = chance(canaries, *guesses, middle, delta) <= 1 - confidence
        low, high = (middle, high) if disproved else (low, middle)
    return low


def lower_bound_of_runs(inside: Floats, outside: Floats, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that many runs disprove, in half of which a canary took part.

    What leaves is Gaussian noise around a sum, so the trade-off of an attacker's two errors is that of two
    normal distributions mu apart. A threshold is chosen by the first half of the scores; the errors on the
    second half, at most as large as Clopper and Pearson say, prove a mu, and that an epsilon. 1,000 runs
    prove over 30, where guesses of coins prove 6 (Nasr et al. 2023, arXiv 2302.07956).

    Args:
        inside: Scores of runs with the canary; white-box: along the canary's own gradient.
        outside: Scores of runs without.
        delta: Of the claim.
        confidence: Of the proof.

    Returns:
        0 where nothing is disproved.
    """
    from scipy import optimize, stats

    first, second = [(part[: len(part) // 2], part[len(part) // 2 :]) for part in (inside, outside)]
    edges = np.quantile(np.concatenate([first[0], second[0]]), np.linspace(0.02, 0.98, 49))
    errors = [(first[0] < edge).mean() + (second[0] >= edge).mean() for edge in edges]
    edge = edges[int(np.argmin(errors))]

    def most(wrong: Bools) -> float:
        count, made = int(wrong.sum()), len(wrong)
        return float(stats.beta.ppf((1 + confidence) / 2, count + 1, made - count)) if count < made else 1.0

    missed, alarmed = most(first[1] < edge), most(second[1] >= edge)
    mu = float(stats.norm.ppf(1 - alarmed) - stats.norm.ppf(missed))
    if not mu > 0:
        return 0.0

    def gap(epsilon: float) -> float:
        inner = stats.norm.logcdf(-epsilon / mu - mu / 2) + epsilon
        return float(stats.norm.cdf(-epsilon / mu + mu / 2) - np.exp(inner) - delta)

    return 0.0 if gap(0.0) <= 0 else float(optimize.brentq(gap, 0.0, 10 + 10 * mu * mu))
