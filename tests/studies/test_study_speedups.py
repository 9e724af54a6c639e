"""The adaptivity study: its arithmetic on tracks made by hand, and its tables."""

import json
import math
from types import SimpleNamespace
from xml.etree import ElementTree

import adaptivity
import pytest
from adaptivity import ALPHAS, PROFILES, TARGETS

from amsfl import methods, planning
from amsfl.clock import CLOCKS
from amsfl.record import write_sealed
from amsfl.simulation import make_config
from amsfl.simulation.components import work_of

import speedups
from speedups import STEPS, Track, candidates, setting

SETTINGS = [setting(p, k, f"dirichlet:{a:g}") for a in ALPHAS for p in PROFILES for k in CLOCKS]
ARRIVES = (0.5, 0.9, 0.96, 0.98)


def tracks(seconds: float, accuracy=ARRIVES, **changes):
    """A track of two seeds that needs `seconds` a round in every setting."""
    one = Track(1, 0.5, 20, list(accuracy), {where: [seconds] for where in SETTINGS})._replace(**changes)
    return [one, one._replace(seed=2)]


def compare(ours, theirs):
    return list(speedups.compare("us", {"us": ours}, "them", {"them": theirs}, TARGETS))


def test_twenty_settings_and_the_grid_of_fixed_steps():
    """4 rates x 5 steps x 2 alphas x 2 partitions x 3 seeds for fixed steps."""
    units = {unit.name: unit for unit in adaptivity.units(adaptivity.Settings())}
    assert len(SETTINGS) == 20 and len(units["amsfl"].configs) == 60
    assert len(units["fedavg"].configs) == 240 and len(units["speed"].configs) == 60
    assert all(config.extrapolation == 4 for config in units["fedavg+exp"].configs)
    assert {config.steps for config in units["scaffold"].configs} == set(STEPS)
    own = {setting(c.profile, c.clock, c.partition) for c in units["amsfl"].configs}
    assert own == set(SETTINGS)
    assert all(c.target == 0.97 and c.stop_at_target for unit in units.values() for c in unit.configs)
    assert "no line search" not in {u.name for u in adaptivity.units(adaptivity.Settings(ablations=False))}


def test_time_to_target_is_the_first_evaluation_at_or_above_it():
    track = tracks(2.0)[0]
    assert speedups.time_to(track, SETTINGS[0], 0.89) == (4.0, True)
    assert speedups.time_to(track, SETTINGS[0], 0.95) == (6.0, True)
    assert speedups.time_to(tracks(2.0, (0.5, 0.9))[0], SETTINGS[0], 0.97) == (4.0, False)
    own_times = track._replace(seconds={"here": [1.0, 1.5, 4.0, 9.0]})
    assert speedups.time_to(own_times, "here", 0.95) == (4.0, True)


@pytest.mark.parametrize(("method", "total", "slowest"), [("fedavg", 8.83, 3.16), ("scaffold", 13.08, None)])
def test_fixed_steps_are_timed_in_settings_they_were_not_run_in(method, total, slowest):
    """2 steps, profile far: 2 * 0.165 + 8.5 s; the slowest client 2 * 0.08 + 3 s.

    Half of the communication is transfer, and SCAFFOLD sends twice as much: 1.5 times 8.5 s.
    """
    record = SimpleNamespace(
        cohort=[0, 1, 2, 3, 4], steps=[2] * 5, metrics={"holdout": {"accuracy": 0.9}}, seconds={}
    )
    work = work_of(methods.make(method), planning.policy("fixed"), 10_117)
    task = SimpleNamespace(shards=SimpleNamespace(size=[[1] * 5]))
    result = SimpleNamespace(rounds=[record, record], parts=SimpleNamespace(work=work, task=task))
    track = speedups.timed_track(make_config({"method": method, "lr": 0.5, "steps": 2}), result, ["far"], "a")
    assert track["seconds"]["a|far|sum"] == [pytest.approx(total)]
    assert slowest is None or track["seconds"]["a|far|makespan"] == [pytest.approx(slowest)]


def test_hindsight_takes_the_best_for_a_setting_and_prefers_those_that_arrive():
    fast_once = [
        track._replace(seconds={w: [1.0 if w == SETTINGS[5] else 4.0] for w in SETTINGS})
        for track in tracks(0.0)
    ]
    rivals = {"slow": tracks(3.0), "mixed": fast_once, "stuck": tracks(0.1, (0.5, 0.6))}
    assert speedups.fastest(rivals, SETTINGS[5], 0.95).seconds[1] == 3.0
    assert speedups.fastest(rivals, SETTINGS[6], 0.95).seconds[1] == 9.0


def test_speed_ups_are_geometric_means():
    """Twice as fast in all settings but one, where it is half as fast: (2^19 / 2)^(1/20)."""
    theirs = [
        track._replace(seconds={w: [0.5 if w == SETTINGS[0] else 2.0] for w in SETTINGS})
        for track in tracks(0.0)
    ]
    rows = compare(tracks(1.0), theirs)
    assert [row["target"] for row in rows] == list(TARGETS)
    for row in rows:
        assert row["mean"] == pytest.approx(2 ** (18 / 20)) and row["missed"] == 0
        assert (row["worst"], row["best"]) == (pytest.approx(0.5), pytest.approx(2.0))
        assert row["low"] <= row["mean"] <= row["high"] <= 2.0 + 1e-9


def test_who_never_arrives_counts_against_itself():
    """A rival's last second is a lower bound; our own miss counts ten times the time we had."""
    arrives, stuck = tracks(1.0), tracks(1.0, (0.5, 0.6))
    assert compare(arrives, stuck)[2]["mean"] == pytest.approx(2 / 4)
    miss = compare(stuck, arrives)[2]
    assert miss["mean"] == pytest.approx(4 / 20) and miss["missed"] == 1


def test_the_study_s_table_and_picture(tmp_path):
    """From finished units: ours, and FedAvg with two rates and two step counts."""
    fedavg = [t for lr in (0.05, 0.5) for steps in (2, 20) for t in tracks(2.0, lr=lr, steps=steps)]
    out = tmp_path / "adaptivity"
    out.mkdir()
    for name, some in (("amsfl", tracks(1.0)), ("fedavg", fedavg), ("no line search", tracks(1.5))):
        trials = [track._asdict() for track in some]
        write_sealed(out / f"unit-{name}.json", {"name": name, "made_from": "", "trials": trials})
    adaptivity.study(adaptivity.Settings(out=out, only_report=True))
    rows = json.loads((out / "adaptivity.json").read_text())
    assert {row["against"] for row in rows} >= {"FedAvg, 20 steps, lr 0.05", "fedavg, best lr and steps"}
    assert all(math.isfinite(row["mean"]) and row["low"] <= row["mean"] <= row["high"] for row in rows)
    text = (out / "adaptivity.md").read_text()
    assert "| who | against | to 89% |" in text and "| AMSFL | fedavg, best lr and steps | 2.00 (" in text
    ElementTree.parse(out / "adaptivity.svg")
    assert (out / "adaptivity.png").stat().st_size > 10_000


def test_candidates_have_one_rate_and_number_of_steps():
    groups = candidates("x", [*tracks(1.0), *tracks(1.0, lr=1.0)])
    assert {label: len(some) for label, some in groups.items()} == {
        "x, lr 0.5, 20 steps": 2,
        "x, lr 1, 20 steps": 2,
    }


@pytest.mark.parametrize("options", speedups.ABLATIONS.values(), ids=speedups.ABLATIONS)
def test_what_is_switched_off_is_a_setting_of_the_method(options):
    assert methods.METHODS.make("amsfl", options).name == "amsfl"
