"""Whole clients kept private; epsilon planned over a run: the noise, the book, steps, refusals."""

import numpy as np
import pytest
from federation_small import own_data

import amsfl
from amsfl.core import Upload, UserError
from amsfl.privacy import Exposure, epsilon, noise_for
from amsfl.privacy.accounting import APART, balance, spread_by_worth, spread_evenly
from amsfl.privacy.mechanisms import private_sum
from amsfl.simulation.provenance import leaves_of

dp_accounting = pytest.importorskip("dp_accounting", reason="pip install 'amsfl[privacy]'")
pld = pytest.importorskip("dp_accounting.pld")

GIVEN = {"method": "fedavg", "model": "softmax", "clients": 12, "cohort": 6, "rounds": 3, "batch": 8}
GIVEN |= {"steps": 2, "privacy": "client", "epsilon": 8.0, "partition": "quantity:1", "delta": 1e-3}


def summed(deltas, weights, noise=2.0, clip=1.0, draw=np.zeros):
    """Of a quarter of all clients, of whom the largest has half of the rows."""
    uploads = Upload(deltas, deltas[:, :0], (deltas**2).sum(1))
    return private_sum(clip, noise, 0.25).apply(uploads, weights, 0.5, draw)


def test_one_client_moves_the_sum_by_its_share_of_the_clip():
    """w C / q at most, however long its delta, also where it is no number; a short one is left whole."""
    rng = np.random.default_rng(0)
    deltas, weights = rng.normal(size=(5, 7)), np.array([0.1, 0.05, 0.3, 0.2, 0.1])
    for length in (1e-3, 1.0, 1e6, np.inf):
        other = deltas.copy()
        other[2] = deltas[2] / np.linalg.norm(deltas[2]) * length
        with np.errstate(invalid="ignore"):
            whole, without = (summed(other, each) for each in (weights, weights * (np.arange(5) != 2)))
        moved = np.linalg.norm(whole.delta - without.delta)
        expected = 0.3 * min(length, 1) / 0.25 if np.isfinite(length) else 0.0
        assert moved == pytest.approx(expected, rel=1e-9)


def test_the_noise_goes_by_the_largest_share_of_all():
    """z C max w / q a number: 2 x 3 x 0.5 / 0.25 = 12; nobody in the cohort changes that."""
    draw = np.random.default_rng(1).standard_normal
    total = summed(np.zeros((2, 100_000)), np.array([0.1, 0.2]), clip=3.0, draw=draw)
    assert total.delta.std() == pytest.approx(12, rel=0.02)


def test_the_book_is_dp_accountings_and_engines_agree(tmp_path):
    """A Poisson cohort each round, epsilon of rounds; in both engines."""
    given = GIVEN | {"precision": "float64", "dataset": own_data()}
    given |= {"noise": 2.0, "epsilon": None}
    one, two = (amsfl.run(engine=each, out=tmp_path / each, **given) for each in ("jax", "loop"))
    np.testing.assert_allclose(one.params, two.params, atol=1e-5)
    sizes = [len(record.cohort) for record in one.rounds]
    assert sizes == [len(record.cohort) for record in two.rounds] and len(set(sizes)) > 1
    noise = one.summary.noise["every client"]
    theirs = pld.PLDAccountant()
    theirs.compose(dp_accounting.PoissonSampledDpEvent(0.5, dp_accounting.GaussianDpEvent(noise)), 3)
    claimed = one.summary.epsilon["every client"]
    assert theirs.get_epsilon(1e-3) * (1 - 1e-6) <= claimed <= 1.02 * theirs.get_epsilon(1e-3)
    assert [len(record.epsilon) for record in one.rounds] == [1, 1, 1]
    assert one.rounds[0].epsilon[0] < one.rounds[2].epsilon[0] == claimed
    (delta, *_) = leaves_of(tmp_path / "jax")
    assert "server" in delta.protected and not any(
        leaf.name == "reading" for leaf in leaves_of(tmp_path / "jax")
    )


def test_a_noise_of_ones_own_ends_the_run_when_epsilon_is_spent():
    run = amsfl.run(dataset=own_data(), engine="loop", **GIVEN | {"noise": 2.0, "epsilon": 4.0, "rounds": 50})
    assert 0 < run.summary.rounds < 50 and run.summary.epsilon["every client"] <= 4


REFUSED = {
    "two vectors": ({"method": "scaffold"}, "more than a delta"),
    "by steps": ({"method": "fednova"}, "more than a delta"),
    "plans": ({"policy": "price"}, "readings"),
    "rules": ({"robust": "median"}, "not known"),
    "FedExP": ({"extrapolation": 4.0}, "not known"),
    "late": ({"round_end": "quorum:2", "clock": "makespan"}, "drawn by chance"),
    "counts": ({"class_weights": "balanced"}, "counts of classes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_nobody_can_bound_is_refused(case):
    more, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        amsfl.run(dataset=own_data(), **GIVEN | more)


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
    worth = {"shares": shares, "batches": np.minimum(rows, batch) + 0.0, "numbers": 650, "most": 10_000}
    steps, noises = spread_by_worth(sites, [2.0] * 3, 100, **worth)
    assert steps[0] > 100 > steps[1] > steps[2] >= 1
    assert (shares * steps).sum() == pytest.approx(100, abs=1)
    for site, noise, taken in zip(sites, noises, steps, strict=True):
        assert 1.7 < epsilon(site._replace(noise=noise), int(taken)) <= 2


@pytest.mark.slow
def test_a_run_spends_what_it_has(tmp_path):
    """Nobody says a noise: every site has its own, all of epsilon is used, and more rounds are refused."""
    given = {"data": "digits", "model": "softmax", "batch": 32, "lr": 0.5, "steps": 3, "engine": "loop"}
    given |= {"rounds": 3, "epsilon": 2.0, "partition": "quantity:1"}
    with pytest.warns(amsfl.core.Remark, match="Under privacy amsfl does without"):
        run = amsfl.run(out=tmp_path / "run", **given)
    assert all(1.6 < each <= 2 for each in run.summary.epsilon.values())
    rows, steps = run.parts.task.shards.size[0], np.array(list(run.summary.steps.values()))
    assert steps[rows.argmin()] == steps.min() < 9 <= steps[rows.argmax()]
    assert len(set(run.summary.noise.values())) > 1
    with pytest.raises(UserError, match="lasts for 3 rounds"):
        amsfl.resume(tmp_path / "run", rounds=5)
