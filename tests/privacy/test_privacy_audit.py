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


def test_many_runs_catch_a_false_claim_of_eight():
    """White-box: one step of the real mechanism on a batch of one canary, 2,000 runs, half of them with it.
    With the noise that an epsilon of 8 needs nothing above 8 is proved; with a third of it 8 is disproved."""
    from amsfl.privacy import Exposure, noise_for, record_level, safe_sum, system_random
    from amsfl.privacy.audit import lower_bound_of_runs

    private, canary = record_level().client, np.zeros((1, 8))
    canary[0, 0] = 50.0  # far longer than the clip

    def scores(noise, present):
        factors = safe_sum.row_factors(private, safe_sum.norms(canary), np.array([present]))
        total = safe_sum.weighted_sum(factors, canary)
        drawn = private.noise(lambda _: system_random.normal(8 * 1000), noise).reshape(1000, 8)
        return (total + drawn)[:, 0]

    noise = noise_for(Exposure(1.0, 1.0, 1e-5), 8.0, 1)
    honest = lower_bound_of_runs(scores(noise, True), scores(noise, False), 1e-5)
    assert 3 < honest <= 8
    assert lower_bound_of_runs(scores(noise / 3, True), scores(noise / 3, False), 1e-5) > 8
    assert lower_bound_of_runs(scores(noise, False), scores(noise, False), 1e-5) < 1
