"""The privacy study: the best learning rate, what planning adds; the audit in miniature."""

import audit
import privacy
import pytest
from federation_small import own_data

from amsfl.data import load
from amsfl.simulation import make_config

import common

SLOW = pytest.mark.slow


def trial(seed, lr, accuracy, spent):
    return {"seed": seed, "lr": lr, "noise": None, "accuracy": accuracy, "spent": spent}


def test_the_best_rate_counts_and_planning_is_compared_by_seed():
    """lr 1 is better on average (0.8, 0.9 against 0.85, 0.75); planning adds 5 and 3 points, so 4."""
    equal = [
        trial(0, 0.5, 0.85, 1.9),
        trial(1, 0.5, 0.75, 1.9),
        trial(0, 1.0, 0.8, 1.8),
        trial(1, 1.0, 0.9, 1.9),
    ]
    planned = [trial(0, 0.5, 0.85, 2.0), trial(1, 0.5, 0.93, 2.0)]
    units = [("FedAvg, equal steps", equal), (privacy.PLANNED, planned)]
    rows = privacy.rows_of([{"name": name, "epsilon": 2.0, "trials": some} for name, some in units])
    text = privacy.table(rows).markdown()
    assert "| 2 | FedAvg, equal steps | 0.850 ± 0.100 | +4.0 ± 2.0 | 1 | by site | 1.90 |" in text
    assert privacy.figure(rows).get_axes()


def test_every_rate_and_noise_is_run():
    """Three rates; one contestant has three noises, three have none: 18 runs for an epsilon and a seed."""
    units = privacy.units(privacy.Settings(seeds=1, epsilons=(1.0, 2.0)))
    assert sum(len(unit.configs) for unit in units) == 2 * 18


def test_what_is_kept_of_a_private_run(tmp_path):
    shared = {"engine": "loop", "model": "softmax", "rounds": 1, "batch": 8, "steps": 1, "clients": 2}
    configs = [make_config(shared | {"method": "fedavg", "epsilon": 4.0, "seed": seed}) for seed in (0, 1)]
    labels = {"name": "FedAvg, equal steps", "epsilon": 4.0}
    common.run_units(tmp_path, [common.Unit("equal", labels, configs, own_data, privacy.keep)])
    (row,) = privacy.rows_of(common.read_units(tmp_path))
    assert row["spent"] <= 4 and 0 <= row["accuracy"] <= 1 and row["gain"] != row["gain"]


@pytest.mark.parametrize("name", [pytest.param("FedAvg", marks=SLOW), "FedAvg, its noise left out"])
def test_noise_holds_and_its_absence_is_caught(tmp_path, name):
    """Six rounds, 200 canaries: private rows stay below epsilon; without noise guesses are right."""
    settings = audit.Settings(seeds=1, first_seed=1, epsilons=(2.0,), rounds=6, out=tmp_path / "audit")
    common.run_units(settings.out, [unit for unit in audit.units(settings) if unit.labels["name"] == name])
    (row,) = audit.rows_of(common.read_units(settings.out))
    assert row["claimed"] <= 2 and row["made"] == 80
    assert row["holds"] == (name == "FedAvg")
    if name != "FedAvg":
        assert row["right"] >= 70
    assert ("stands" if row["holds"] else "is false") in audit.table([row]).markdown()


def test_canaries_are_in_the_largest_site():
    pool = load("digits")
    planted = audit.plant(pool, 40, 3)
    data = planted.dataset
    sizes = [int((data.sites == site).sum()) for site in range(5)]
    added = len(data.y) - len(pool.y)
    assert added == planted.inside.sum() and (data.sites[-added:] == 0).all() and sizes[0] == max(sizes)
    assert data.x.shape[1] == pool.x.shape[1] + 40


@pytest.mark.slow
def test_many_runs_with_one_canary_catch_too_little_noise(tmp_path):
    """300 runs: the claim of 8 stands with its noise, and falls with a third of it."""
    settings = audit.Settings(epsilons=(8.0,), runs=300, only="many runs", out=tmp_path / "audit")
    common.run_units(settings.out, audit.units(settings))
    honest, false = audit.rows_of(common.read_units(settings.out))
    assert 1 < honest["bound"] <= 8 < false["bound"]
    assert "300 runs | 8.00 |" in audit.table([false]).markdown()
