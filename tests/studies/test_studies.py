"""The studies: their arithmetic by hand, and two of them in miniature."""

import json

import evidence
import language
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
        own = robustness.CONTESTANTS[name] | {"engine": "loop", "model": "softmax"}
        rows = [*robustness.trials(load("digits"), own, 3, range(1))]
        ends[name] = [row["accuracy"] for row in rows]
    assert ends["FedAvg, chain"][1] > ends["FedAvg"][1] + 0.05


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


def test_a_small_language_model_reads_what_every_python_has(tmp_path) -> None:
    language.prepare(None, tmp_path / "text.npz", 20_000)
    data = language.rows_of(tmp_path / "text.npz", 32, 20_000, together=False)
    assert data.site_names == language.PACKAGES and len(data.evals["holdout"][0]) == 8 * language.HELD


def row(who, label, times, end, seed=900):
    track = {"case": "mine", "who": who, "label": label, "seed": seed, "profile": "far", "clock": "sum"}
    return track | {"end": end, "held": end, "low": end, "times": times}


def test_a_ladder_says_when_each_level_was_first_reached():
    times = evidence.ladder(np.array([0.2, 0.6, 0.4, 0.8]), np.array([1.0, 2.0, 3.0, 4.0]))
    at = {level: times[round(level * evidence.LADDER)] for level in (0.1, 0.2, 0.5, 0.6, 0.8, 0.9)}
    assert at == {0.1: 1.0, 0.2: 1.0, 0.5: 2.0, 0.6: 2.0, 0.8: 4.0, 0.9: -4.0}


def test_the_best_setting_counts_and_a_miss_costs_twice_the_last_second(tmp_path, capsys):
    """From 0.2 to 0.8: 70% of the way is 0.62. Ours is there at 4; of theirs one at 8, one never by 10."""
    levels = np.arange(evidence.LADDER + 1) / evidence.LADDER
    ours = row("amsfl", "", np.where(levels <= 0.8, 4.0, -4.0).tolist(), 0.8)
    theirs = [
        row("fixed", "10 steps", np.where(levels <= 0.5, 5.0, -10.0).tolist(), 0.5),
        row("fixed", "5 steps", np.where(levels <= 0.7, 8.0, -10.0).tolist(), 0.7),
    ]
    whole = {"case": "mine", "majority": 0.2, "rows": [ours, *theirs]}
    (tmp_path / "mine--all.json").write_text(json.dumps(whole))
    table = evidence.Table(tmp_path)
    assert table.faster([ours], theirs, 0.70) == pytest.approx(2.0)
    assert table.faster([ours], theirs[:1], 0.70) == pytest.approx(20 / 4)
    assert table.best_end(theirs) == pytest.approx(70)
    evidence.show(tmp_path)
    assert "| ten fixed steps, all else equal | 5.00 / 5.00 / 5.00 | 1 of 1 |" in capsys.readouterr().out


def test_steps_chosen_on_the_other_seed(tmp_path):
    """Five steps are best at one seed and ten at the other: so each is shown where it is the worse one."""
    at = {("5 steps", 900): 6.0, ("10 steps", 900): 8.0, ("5 steps", 901): 12.0, ("10 steps", 901): 4.0}
    theirs = [row("fixed", label, [s] * (evidence.LADDER + 1), 0.8, seed) for (label, seed), s in at.items()]
    ours = [row("amsfl", "", [4.0] * (evidence.LADDER + 1), 0.8, seed) for seed in evidence.SEEDS]
    whole = {"case": "mine", "majority": 0.2, "rows": ours + theirs}
    (tmp_path / "mine--all.json").write_text(json.dumps(whole))
    table = evidence.Table(tmp_path, levels=[0.5])
    assert table.faster_beforehand(ours, theirs, 0.5) == pytest.approx((12 / 4 * 8 / 4) ** 0.5)
