"""An audit: what an attacker can prove of the privacy that was lost, from one run with canaries.

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
