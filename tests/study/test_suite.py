"""The suite: its cases and data, its arithmetic on tracks made by hand, and one case of it in miniature."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from amsfl.cli.app import app
from amsfl.core import UserError
from amsfl.data import load
from amsfl.study import suite, suite_cases, suite_data, suite_score
from amsfl.study.suite import Found, Track

CASE = suite_cases.CASES["digits"]
SETTINGS = suite.settings(CASE)


def test_the_suite_is_as_wide_as_it_says():
    """Development and held-out cases are different ones; between them all kinds of models and clients."""
    held = {case.name for case in suite_cases.HELD_OUT}
    seen = {case.name for case in suite_cases.DEVELOPMENT}
    assert len(seen) >= 8 and len(held) >= 3 and not held & seen
    every = suite_cases.CASES.values()
    assert {"softmax", "mlp", "cnn", "mlp:256"} <= {case.model for case in every}
    assert {5, 10, 50} <= {case.clients for case in every} and any(case.cohort for case in every)
    assert any(case.partition == "column" for case in every)
    assert suite_cases.pick("held-out") == suite_cases.HELD_OUT
    assert [case.name for case in suite_cases.pick("banana,digits")] == ["banana", "digits"]
    with pytest.raises(UserError, match="did you mean 'digits'"):
        suite_cases.pick("digit")


def test_noise_and_scale_leave_the_hold_out_true():
    """A fifth of the labels drawn anew from ten: 18% differ. The hold-out is scaled, never relabelled."""
    data = load("digits")
    noisy, scaled = suite_data.noisy(data, 0.2), suite_data.scaled(data, 100)
    assert (noisy.y != data.y).mean() == pytest.approx(0.18, abs=0.03)
    assert np.array_equal(noisy.evals["holdout"][1], data.evals["holdout"][1])
    assert np.allclose(scaled.x, 100 * data.x)
    assert np.allclose(scaled.evals["holdout"][0], 100 * data.evals["holdout"][0])
    assert len(suite_data.shortened(data, 50).evals["holdout"][1]) == 50


def test_sites_are_services_and_none_is_empty():
    data = suite_data.by_service(load("nslkdd-synth"))
    sizes = np.bincount(data.sites)
    assert len(sizes) == len(data.site_names) == 13 and sizes.min() > 0
    assert sizes[:12].tolist() == sorted(sizes[:12], reverse=True)


def test_a_package_that_is_not_there_is_a_sentence():
    with pytest.raises(UserError, match=r"nosuchthing, which is not installed: amsfl\[suite\]"):
        suite_data.inside("nosuchthing", "data.csv")


def track(each: float, accuracy, lr=0.5, steps=5, seed=0, settings=SETTINGS):
    return Track(seed, lr, steps, list(accuracy), {setting: [each] for setting in settings})


def found(ours, rivals, majority=0.2):
    return Found(majority, {"amsfl": ours, "fedavg": rivals})


def test_targets_lie_between_the_majority_and_the_best_rival():
    """The best configuration's mean over seeds of its best accuracy: (1 + 0.8) / 2, so 0.2 + 0.7 * 0.7 ..."""
    rivals = [
        track(1, [0.5, 1.0]),
        track(1, [0.8, 0.6], seed=1),
        track(1, [0.85], lr=1),
        track(1, [0.85], lr=1, seed=1),
    ]
    assert suite_score.targets(found([], rivals)) == pytest.approx([0.69, 0.795, 0.865])


def test_speed_ups_by_hand():
    """The rival takes a second a round and arrives in rounds 2, 3, 4; ours half a second, a round later."""
    rivals = [track(1.0, [0.2, 0.8, 0.9, 1.0])]
    ours = [track(0.5, [0.2, 0.2, 0.8, 0.9, 1.0, 0.9])]
    (row,) = suite_score.rows("digits", found(ours, rivals))
    assert row.speedups == pytest.approx([2 / 1.5, 3 / 2, 4 / 2.5])
    assert row.least == pytest.approx(row.speedups) and row.missed == 0
    assert (row.last, row.rival_last) == pytest.approx((0.9, 1.0))
    assert row.fell == pytest.approx(0.1), "the last round lies 0.1 below the best"
    assert row.rivals == ["fedavg, lr 0.5, 5 steps"] * 3


def test_a_miss_counts_ten_times_and_the_rival_is_chosen_with_hindsight():
    slow, fast = track(2.0, [0.2, 1.0]), track(1.0, [0.2, 1.0], lr=1.0)
    (row,) = suite_score.rows("digits", found([track(1.0, [0.2, 0.8])], [slow, fast]))
    assert row.speedups == pytest.approx([2 / 2, 2 / 20, 2 / 20])
    assert row.missed == pytest.approx(2 / 3) and row.rivals[0] == "fedavg, lr 1, 5 steps"


def test_the_summary_is_a_geometric_mean():
    rivals = [track(1.0, [0.2, 1.0])]
    (fast,) = suite_score.rows("digits", found([track(0.25, [0.2, 1.0])], rivals))
    (slow,) = suite_score.rows("banana", found([track(1.0, [0.2, 1.0])], rivals))
    whole = suite_score.summary([fast, slow])
    assert whole.speedups == pytest.approx([2.0] * 3) and whole.worst == 1.0
    text = suite_score.as_markdown({"development": [fast], "held out": [slow]})
    assert "| digits | 4.00 / 4.00 / 4.00 |" in text and "**held out, 1 cases**" in text


def test_fixed_steps_are_timed_in_every_setting_and_plans_in_their_own():
    names = {unit.name: unit for unit in suite.units([CASE], [0, 1], peers=True, ablations=True)}
    assert len(names["fedavg"].configs) == 4 * 5 * 2 and names["fedavg"].fixed
    assert len(names["amsfl"].configs) == 2 * 2 * 2 and not names["amsfl"].fixed
    assert len(names["amsfl, speed-proportional steps"].configs) == 3 * 8
    assert {"fedavgm", "fedadam", "no secant", "amsfl, fixed steps"} <= set(names)


def test_one_case_in_miniature(tmp_path, monkeypatch):
    """Real runs, stopped and continued; then the table, the picture and the JSON of the command."""
    monkeypatch.setattr(suite, "ROUNDS", 2)
    monkeypatch.setattr(suite, "RATES", (0.5,))
    monkeypatch.setattr(suite, "STEPS", (2,))
    monkeypatch.setattr(suite, "RIVALS", ("fedavg",))
    small = suite_cases.CASES["digits-x100"]  # softmax: it compiles in no time
    todo = list(suite.units([small], [0]))
    suite.run(tmp_path, todo[:1])
    first = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("unit-*")}
    result = CliRunner().invoke(
        app, ["study", "suite", "--seeds", "1", "--cases", "digits-x100", "--out", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    assert len(first) == 1
    assert all(
        file.stat().st_mtime_ns == first[file.name] for file in tmp_path.glob("unit-*") if file.name in first
    )
    case = suite.read(tmp_path)["digits-x100"]
    assert set(case.tracks) == {"amsfl", "fedavg"}
    assert all(len(one.accuracy) == 2 for tracks in case.tracks.values() for one in tracks)
    assert case.tracks["fedavg"][0].seconds.keys() == set(suite.settings(small))
    rows = json.loads((tmp_path / "suite.json").read_text())
    assert rows["development"][0]["case"] == "digits-x100"
    assert (tmp_path / "speedups.png").stat().st_size > 1000
    assert "digits-x100" in (tmp_path / "suite.md").read_text()
