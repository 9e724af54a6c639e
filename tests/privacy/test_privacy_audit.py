"""An audit by canaries: its arithmetic."""

import numpy as np
import pytest
from scipy import stats

from amsfl.privacy.audit import Guesses, chance, guess, lower_bound


def test_the_bound_is_clopper_and_pearsons_without_delta():
    """Then p = P[Bin(r, q) >= v]: the q with p = 0.05 is the lower end of Clopper and Pearson's interval."""
    for made, right in ((80, 60), (80, 80), (100, 70)):
        low = stats.beta.ppf(0.05, right, made - right + 1)
        assert lower_bound(200, Guesses(made, right), 0.0) == pytest.approx(np.log(low / (1 - low)), abs=1e-3)
    assert lower_bound(200, Guesses(80, 42), 0.0) == 0.0
    assert lower_bound(200, Guesses(80, 60), 1e-5) < lower_bound(200, Guesses(80, 60), 0.0)


def test_deltas_part_by_hand():
    """r = v = 2, epsilon 0: beta = 1/4; P[2 > Bin >= 2 - i]/i is 1/2, then 3/8; so 1/4 + 2 m delta / 2."""
    assert chance(10, 2, 2, 0.0, 0.001) == pytest.approx(0.25 + 2 * 10 * 0.001 * 0.5)


def test_guesses_are_the_ends():
    scores = np.arange(10.0)
    inside = np.array([0, 1, 1, 1, 1, 0, 0, 0, 0, 1], bool)
    assert guess(scores, inside) == Guesses(4, 2)


def test_no_bound_is_above_the_truth_in_randomised_response():
    """Coins told rightly with the chance that epsilon 1 allows: of 100 audits at most a tenth go above."""
    rng, above = np.random.default_rng(3), 0
    for _ in range(100):
        inside = rng.random(200) < 0.5
        told = np.where(rng.random(200) < 1 / (1 + np.exp(-1.0)), inside, ~inside)
        above += lower_bound(200, guess(told + 1e-3 * rng.random(200), inside), 0.0) > 1
    assert above <= 10
