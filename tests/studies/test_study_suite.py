"""The suite: its cases and data, its scores on tracks made by hand, and one case in miniature."""

import json

import numpy as np
import pytest

from amsfl.core import UserError
from amsfl.data import load

from speedups import Track, candidates
from suite import cases, data, scores, study
from suite.scores import CaseTracks

CASE = cases.CASES["digits"]


def test_development_and_held_out_cases_differ():
    held, developed = {c.name for c in cases.HELD_OUT}, {c.name for c in cases.DEVELOPED}
    assert len(developed) >= 8 and len(held) >= 3 and not held & developed
    assert cases.pick("held-out") == cases.HELD_OUT
    assert [case.name for case in cases.pick("banana,digits")] == ["banana", "digits"]
    with pytest.raises(UserError, match="'digits'"):
        cases.pick("digit")


def test_noise_and_scale_leave_the_hold_out_true():
    """A fifth of the labels drawn anew from ten: 18% differ. The hold-out is scaled, never relabelled."""
    digits = load("digits")
    noisy, scaled = data.noisy(digits, 0.2), data.scaled(digits, 100)
    assert (noisy.y != digits.y).mean() == pytest.approx(0.18, abs=0.03)
    assert np.array_equal(noisy.evals["holdout"][1], digits.evals["holdout"][1])
    assert np.allclose(scaled.x, 100 * digits.x)
    assert np.allclose(scaled.evals["holdout"][0], 100 * digits.evals["holdout"][0])
    assert len(data.shortened(digits, 50).evals["holdout"][1]) == 50


def test_sites_are_services_and_none_is_empty():
    services = data.by_service(load("nslkdd-synth"))
    sizes = np.bincount(services.sites)
    assert len(sizes) == len(services.site_names) == 13 and sizes.min() > 0
    assert sizes[:12].tolist() == sorted(sizes[:12], reverse=True)


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(UserError, match=r"nosuchthing.*amsfl\[suite\]"):
        data.inside("nosuchthing", "data.csv")


def track(each: float, accuracy, lr=0.5, steps=5, seed=0):
    settings = [f"{profile}|{kind}" for profile in CASE.profiles for kind in ("sum", "makespan")]
    return Track(seed, lr, steps, list(accuracy), {setting: [each] for setting in settings})


def tracks_of(ours, rivals, name="digits"):
    return CaseTracks(name, 0.2, {"amsfl": ours}, candidates("fedavg", rivals))


def test_targets_lie_between_the_majority_and_the_best_rival():
    """The best configuration's mean over seeds of its best accuracy: (1 + 0.8) / 2, so 0.2 + 0.7 * 0.7 ..."""
    rivals = [track(1, [0.5, 1.0]), track(1, [0.8, 0.6], seed=1)]
    rivals += [track(1, [0.85], lr=1), track(1, [0.85], lr=1, seed=1)]
    assert scores.targets(tracks_of([], rivals)) == pytest.approx([0.69, 0.795, 0.865])


def test_speed_ups_by_hand():
    """The rival takes a second a round and arrives in rounds 2, 3, 4; ours half a second, a round later."""
    rivals, ours = [track(1.0, [0.2, 0.8, 0.9, 1.0])], [track(0.5, [0.2, 0.2, 0.8, 0.9, 1.0, 0.9])]
    (row,) = scores.rows_of(tracks_of(ours, rivals))
    assert row["speedups"] == pytest.approx([2 / 1.5, 3 / 2, 4 / 2.5]) and row["missed"] == 0
    assert row["worst"] == pytest.approx(2 / 1.5)
    assert (row["last"], row["rival_last"]) == pytest.approx((0.9, 1.0))
    assert row["fell"] == pytest.approx(0.1), "the last round lies 0.1 below the best"
    assert [dot["rival"] for dot in row["targets"]] == ["fedavg, lr 0.5, 5 steps"] * 3


def test_a_miss_counts_ten_times_and_the_rival_is_chosen_with_hindsight():
    slow, fast = track(2.0, [0.2, 1.0]), track(1.0, [0.2, 1.0], lr=1.0)
    (row,) = scores.rows_of(tracks_of([track(1.0, [0.2, 0.8])], [slow, fast]))
    assert row["speedups"] == pytest.approx([2 / 2, 2 / 20, 2 / 20])
    assert row["missed"] == pytest.approx(2 / 3) and row["targets"][0]["rival"] == "fedavg, lr 1, 5 steps"


def test_groups_are_summarised_by_geometric_means():
    rivals = [track(1.0, [0.2, 1.0])]
    (fast,) = scores.rows_of(tracks_of([track(0.25, [0.2, 1.0])], rivals))
    (slow,) = scores.rows_of(tracks_of([track(1.0, [0.2, 1.0])], rivals, "banana"))
    whole = scores.summarise([fast, slow], "both")
    assert whole["speedups"] == pytest.approx([2.0] * 3) and whole["worst"] == 1.0
    text = scores.table([fast, slow]).markdown()
    assert "| digits | 4.00 / 4.00 / 4.00 |" in text and "**held out, 1 cases**" in text
    assert "| amsfl | 2 | 2.00 / 2.00 / 2.00 |" in scores.ablation_table([fast, slow]).markdown()


def test_contestants_of_a_case():
    every = list(study.units(study.Settings(cases="digits", peers=True, ablations=True)))
    runs = {unit.labels["name"]: len(unit.configs) for unit in every}
    assert runs["fedavg"] == 4 * 5 * 2 and runs["amsfl"] == 2 * 2 * 2
    assert runs["amsfl, speed-proportional steps"] == 3 * 8
    assert {"fedavgm", "fedadam", "no line search", "amsfl, fixed steps"} <= set(runs)


def test_one_case_in_miniature(tmp_path, monkeypatch):
    """Real runs; then the table, the picture and the JSON."""
    for name, value in {"ROUNDS": 2, "RATES": (0.5,), "STEPS": (2,), "RIVALS": ("fedavg",)}.items():
        monkeypatch.setattr(study, name, value)
    out = tmp_path / "suite"
    study.study(study.Settings(cases="digits-x100", seeds=1, out=out))  # softmax compiles in no time
    (row,) = json.loads((out / "suite.json").read_text())
    assert row["case"] == "digits-x100" and row["group"] == "development" and len(row["speedups"]) == 3
    assert (out / "suite.png").stat().st_size > 1000 and "digits-x100" in (out / "suite.md").read_text()
