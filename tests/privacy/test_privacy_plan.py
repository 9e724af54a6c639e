"""Epsilon planned over a whole run: how many steps for whom, with how little noise; and the study of it."""

import numpy as np
import pytest
from federation_small import own_data

import amsfl
from amsfl.core import UserError
from amsfl.privacy import Site, alike, by_worth, epsilon, noise_for
from amsfl.privacy.budget_plan import APART, weighed
from amsfl.report.draw.privacy import draw
from amsfl.simulation import make_config
from amsfl.study import privacy as study
from amsfl.study import units
from amsfl.study.privacy import End


def test_counts_minimise_noise_and_shift():
    """Against the best of 20,000 random weights; the two ends: the shares, and inverse variances."""
    shares, harm = np.array([0.6, 0.3, 0.1]), np.array([0.001, 0.004, 0.03])

    def cost(u):
        return (u**2 * harm).sum(-1) + APART * ((u - shares) ** 2).sum(-1)

    found = weighed(shares, harm)
    assert found.sum() == pytest.approx(1)
    others = np.random.default_rng(0).dirichlet([1, 1, 1], 20_000)
    assert cost(found) <= cost(others).min()
    np.testing.assert_allclose(weighed(shares, 1e-12 * harm), shares, atol=1e-6)
    np.testing.assert_allclose(weighed(shares, 1e6 * harm), (1 / harm) / (1 / harm).sum(), atol=1e-6)


def test_noise_is_the_least_for_the_steps():
    site = Site(0.1234567, 1.0, 1e-5)
    noise = noise_for(site, 2.0, 100)
    assert epsilon(site._replace(noise=noise), 100) <= 2 < epsilon(site._replace(noise=0.9 * noise), 100)
    assert (alike([site] * 2, [2.0, 4.0], 100).noise == [noise, noise_for(site, 4.0, 100)]).all()


def test_who_has_more_rows_takes_more_steps():
    """Three sites of 1000, 100 and 20 rows; by weight as much as equal steps; each within its epsilon."""
    rows, batch, delta = np.array([1000, 100, 20]), 32, 1e-5
    sites = [Site(min(1.0, batch / n), 1.0, delta) for n in rows]
    shares = rows / rows.sum()
    found = by_worth(sites, [2.0] * 3, 100, shares, np.minimum(rows, batch) + 0.0, 650, 10_000)
    assert found.steps[0] > 100 > found.steps[1] > found.steps[2] >= 1
    assert (shares * found.steps).sum() == pytest.approx(100, abs=1)
    for site, noise, steps in zip(sites, found.noise, found.steps, strict=True):
        assert 1.7 < epsilon(site._replace(noise=noise), int(steps)) <= 2


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
    with pytest.warns(amsfl.core.Remark, match="polyak"):
        run = amsfl.run(out=tmp_path / "run", **given)
    assert all(1.6 < each <= 2 for each in run.summary.epsilon.values())
    rows, steps = run.parts.task.shards.size[0], np.array(list(run.summary.steps.values()))
    assert steps[rows.argmin()] == steps.min() < 9 <= steps[rows.argmax()]
    assert len(set(run.summary.noise.values())) > 1
    with pytest.raises(UserError, match="lasts for 3 rounds"):
        amsfl.resume(tmp_path / "run", rounds=5)


def test_the_best_rate_counts_and_planning_is_compared_by_seed():
    """lr 1 is better in the mean (0.8, 0.9 against 0.85, 0.75); planning gains 5 and 3 points, so 4."""
    ends = [End(0, 0.5, None, 0.85, 1.9), End(1, 0.5, None, 0.75, 1.9)]
    ends += [End(0, 1.0, None, 0.8, 1.8), End(1, 1.0, None, 0.9, 1.9)]
    best = study._best(ends)
    assert [each.lr for each in best] == [1.0, 1.0]
    planned = [End(0, 0.5, None, 0.85, 2.0), End(1, 0.5, None, 0.93, 2.0)]
    row = study._row("FedAvg, equal steps", 2.0, best, planned)
    assert row[2:8] == (pytest.approx(0.85), pytest.approx(0.05), 1.0, None, 1.9, pytest.approx(0.04))
    assert row.behind_error == pytest.approx(0.01)
    assert (
        "| 2 | FedAvg, equal steps | 0.850 ± 0.100 | +4.0 ± 2.0 | 1 | by site | 1.90 |"
        in study.as_markdown([row])
    )


def test_a_study_goes_on(tmp_path):
    assert sum(len(unit.configs) for unit in study.todo([0], [1.0, 2.0], 3, "softmax", "iid")) == 2 * 18
    loop = {"engine": "loop", "model": "softmax", "rounds": 1, "batch": 8, "steps": 1, "clients": 2}
    configs = [make_config(loop | {"method": "fedavg", "epsilon": 4.0, "seed": seed}) for seed in (0, 1)]
    unit, seen = (
        units.Unit("FedAvg, equal steps 4", {"name": "FedAvg, equal steps", "epsilon": 4.0}, configs),
        [],
    )
    for _ in range(2):
        units.run(tmp_path, own_data(), [unit], study.end, lambda name, *_: seen.append(name))
    assert seen == ["FedAvg, equal steps 4"]
    (row,) = study.read(tmp_path)
    assert row.spent <= 4 and 0 <= row.accuracy <= 1 and np.isnan(row.behind)
    draw([row], tmp_path)
    assert (tmp_path / "privacy.png").stat().st_size > 1000
