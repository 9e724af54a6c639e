"""Whole clients kept private: what one can move, the noise, the book, and refusals."""

import numpy as np
import pytest
from federation_small import own_data

import amsfl
from amsfl.core import Upload, UserError
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
