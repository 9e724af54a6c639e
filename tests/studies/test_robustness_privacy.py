"""The studies of robustness and privacy: their arithmetic by hand, and both in miniature."""

import numpy as np
import privacy
import pytest
import robustness
from federation_small import own_data

from amsfl.data import load


def test_the_worst_attack_has_the_lowest_mean() -> None:
    """a (0.8, 0.6) is worse than b (0.75 twice): 20 points; 0.3 of the steps are 1.5 times two of ten."""
    rows = [{"attack": "", "accuracy": 0.9, "share": 0.2}]
    rows += [{"attack": "a", "accuracy": each, "share": 0.1} for each in (0.8, 0.6)]
    rows += [{"attack": "b", "accuracy": 0.75, "share": 0.3} for _ in range(2)]
    assert robustness.line("x", 2, rows) == "| x | 2 | 0.900 | 0.700 | 0.750 | 20.0 | 1.50 |"


@pytest.mark.slow
def test_the_chain_loses_less_than_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robustness, "ATTACKS", ("signflip:{f}",))
    monkeypatch.setattr(robustness, "ROUNDS", 15)
    ends = {}
    for name in ("FedAvg", "FedAvg, chain"):
        own = robustness.contestants([])[name] | {"engine": "loop", "model": "softmax"}
        rows = [*robustness.trials(load("digits"), own, 3, range(1))]
        ends[name] = [row["accuracy"] for row in rows]
    assert ends["FedAvg, chain"][1] > ends["FedAvg"][1] + 0.05


def test_generated_tables_are_the_same_every_time() -> None:
    one, two = robustness.made(7), robustness.made(7)
    assert (one.x == two.x).all() and one.x.shape == (2000, 20) and len(one.classes) == 6


def test_what_runs_prove_is_no_more_than_the_truth() -> None:
    """Normals mu apart are a Gaussian mechanism of that mu: epsilon 8 at delta 1e-5 is mu 1.56."""
    rng = np.random.default_rng(3)
    bounds = [privacy.proved(rng.normal(mu, 1, 1000), rng.normal(0, 1, 1000), 1e-5) for mu in (0, 1.56, 4)]
    assert bounds[0] < 0.5 and 3 < bounds[1] <= 8 < bounds[2]


def test_the_best_learning_rate_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named:
        def __init__(self, lr: float):
            self.accuracy = 1 - abs(lr - 0.5)

    monkeypatch.setattr(privacy, "run_batch", lambda configs, _: [Named(each.lr) for each in configs])
    lr, accuracy = privacy.best(own_data(), 2.0, {"method": "fedavg"}, range(3))
    assert (lr, accuracy.tolist()) == (0.5, [1.0, 1.0, 1.0])


@pytest.mark.slow
def test_too_little_noise_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """300 runs: the claim of 8 stands with its noise, and falls with a third of it."""
    privacy.show_audit([8.0], 300)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].endswith("stands |") and lines[-1].endswith("is false |")
