"""Epsilon planned over a whole run: how many steps for whom, with how little noise."""

import numpy as np
import pytest

import amsfl
from amsfl.core import UserError
from amsfl.privacy import Exposure, epsilon, noise_for
from amsfl.privacy.accounting import APART, Worth, balance, spread_by_worth, spread_evenly


def test_counts_minimise_noise_and_shift():
    """Against the best of 20,000 random weights; the two ends: the shares, and inverse variances."""
    shares, harm = np.array([0.6, 0.3, 0.1]), np.array([0.001, 0.004, 0.03])

    def cost(u):
        return (u**2 * harm).sum(-1) + APART * ((u - shares) ** 2).sum(-1)

    found = balance(shares, harm)
    assert found.sum() == pytest.approx(1)
    others = np.random.default_rng(0).dirichlet([1, 1, 1], 20_000)
    assert cost(found) <= cost(others).min()
    np.testing.assert_allclose(balance(shares, 1e-12 * harm), shares, atol=1e-6)
    np.testing.assert_allclose(balance(shares, 1e6 * harm), (1 / harm) / (1 / harm).sum(), atol=1e-6)


def test_noise_is_the_least_for_the_steps():
    site = Exposure(0.1234567, 1.0, 1e-5)
    noise = noise_for(site, 2.0, 100)
    assert epsilon(site._replace(noise=noise), 100) <= 2 < epsilon(site._replace(noise=0.9 * noise), 100)
    assert (spread_evenly([site] * 2, [2.0, 4.0], 100)[1] == [noise, noise_for(site, 4.0, 100)]).all()


def test_who_has_more_rows_takes_more_steps():
    """Three sites of 1000, 100 and 20 rows; by weight as much as equal steps; each within its epsilon."""
    rows, batch, delta = np.array([1000, 100, 20]), 32, 1e-5
    sites = [Exposure(min(1.0, batch / n), 1.0, delta) for n in rows]
    shares = rows / rows.sum()
    steps, noises = spread_by_worth(
        sites, [2.0] * 3, 100, Worth(shares, np.minimum(rows, batch) + 0.0, 650, 10_000)
    )
    assert steps[0] > 100 > steps[1] > steps[2] >= 1
    assert (shares * steps).sum() == pytest.approx(100, abs=1)
    for site, noise, taken in zip(sites, noises, steps, strict=True):
        assert 1.7 < epsilon(site._replace(noise=noise), int(taken)) <= 2


@pytest.mark.slow
def test_a_run_spends_what_it_has(tmp_path):
    """Nobody says a noise: every site has its own, all of epsilon is used, and more rounds are refused."""
    given = {
        "data": "digits",
        "model": "softmax",
        "batch": 32,
        "lr": 0.5,
        "steps": 3,
        "partition": "quantity:1",
    }
    given |= {"engine": "loop", "rounds": 3, "epsilon": 2.0}
    with pytest.warns(amsfl.core.Remark, match="Under privacy amsfl does without"):
        run = amsfl.run(out=tmp_path / "run", **given)
    assert all(1.6 < each <= 2 for each in run.summary.epsilon.values())
    rows, steps = run.parts.task.shards.size[0], np.array(list(run.summary.steps.values()))
    assert steps[rows.argmin()] == steps.min() < 9 <= steps[rows.argmax()]
    assert len(set(run.summary.noise.values())) > 1
    with pytest.raises(UserError, match="lasts for 3 rounds"):
        amsfl.resume(tmp_path / "run", rounds=5)
