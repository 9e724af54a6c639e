"""The adaptivity study: its arithmetic on tracks made by hand, and the whole of it in miniature."""

import json
import math

import pytest
from typer.testing import CliRunner

from amsfl.cli.app import app
from amsfl.clock import CLOCKS
from amsfl.data import load
from amsfl.record import write_sealed
from amsfl.study import adaptivity, bench, speedups
from amsfl.study.adaptivity import ALPHAS, PROFILES, STEPS, TARGETS, Track, Unit, units
from amsfl.study.speedups import SETTINGS, Time


def planned(seconds: float, accuracy=(0.5, 0.9, 0.96, 0.98)):
    """A track in every setting and two seeds that needs `seconds` a round."""
    clock = [seconds * (n + 1) for n in range(len(accuracy))]
    return [Track(a, p, k, seed, 0.5, 20, list(accuracy), clock) for a, p, k in SETTINGS for seed in (1, 2)]


def test_the_grid_is_the_issue_s():
    """Twenty settings; 4 rates x 5 steps x 2 alphas x 2 partitions x 3 seeds for fixed steps."""
    names = {unit.name: unit for unit in units([1, 2, 3])}
    assert len(SETTINGS) == 20 and len(names["amsfl"].configs) == 60
    assert len(names["fedavg"].configs) == 240 and len(names["wang"].configs) == 60
    assert all(c.extrapolation == 4 for c in names["fedavg+exp"].configs)
    assert {c.steps for c in names["scaffold"].configs} == set(STEPS)
    assert {(c.partition, c.profile, c.clock) for c in names["amsfl"].configs} == {
        (f"dirichlet:{a:g}", p, k) for a in ALPHAS for p in PROFILES for k in CLOCKS
    }
    assert all(c.target == 0.97 and c.stop_at_target for unit in names.values() for c in unit.configs)


def test_time_to_target_is_the_first_evaluation_at_or_above_it():
    times = speedups.planned_times(planned(2.0))
    assert times[(SETTINGS[0], 1, 0.89)] == Time(4.0, True)
    assert times[(SETTINGS[0], 1, 0.95)] == Time(6.0, True)
    never = speedups.planned_times(planned(2.0, (0.5, 0.9)))
    assert never[(SETTINGS[3], 2, 0.97)] == Time(4.0, False)


def test_fixed_steps_are_timed_in_every_setting_they_were_not_run_in():
    """FedAvg, 2 steps, profile far: sum over clients of 2c + b = 2 * 0.165 + 8.5; slowest 2 * 0.08 + 3."""
    track = Track(0.1, "mild", "sum", 1, 0.5, 2, [0.9], [123.0])
    times = speedups.fixed_times("fedavg", [track])[(0.5, 2)]
    assert times[((0.1, "far", "sum"), 1, 0.89)].seconds == pytest.approx(8.83)
    assert times[((0.1, "far", "makespan"), 1, 0.89)].seconds == pytest.approx(3.16)
    assert not any(setting[1] == "slow-big" for setting, _, _ in times)  # another partition


def test_scaffold_pays_for_its_second_vector():
    """Half of the communication is transfer, and it sends twice as much: 1.5 times 8.5 s."""
    track = Track(0.1, "mild", "sum", 1, 0.5, 2, [0.9], [123.0])
    assert adaptivity.round_seconds("scaffold", track, "far", "sum", 10_117) == pytest.approx(0.33 + 12.75)


def test_hindsight_takes_the_best_per_setting_and_prefers_those_that_arrive():
    fast, slow = speedups.planned_times(planned(1.0)), speedups.planned_times(planned(3.0))
    stuck = speedups.planned_times(planned(0.1, (0.5, 0.6)))
    mixed = {key: (fast if key[0] == SETTINGS[5] else slow)[key] for key in fast}
    chosen = speedups.hindsight([slow, mixed, stuck])
    assert chosen[(SETTINGS[5], 1, 0.95)].seconds == 3.0
    assert chosen[(SETTINGS[6], 1, 0.95)].seconds == 9.0


def test_speed_ups_are_geometric_means():
    """Twice as fast in all settings but one, where it is half as fast: (2^19 / 2)^(1/20)."""
    ours, theirs = speedups.planned_times(planned(1.0)), speedups.planned_times(planned(2.0))
    theirs |= {k: Time(v.seconds / 4, True) for k, v in theirs.items() if k[0] == SETTINGS[0]}
    rows = list(speedups.compare("us", ours, "them", theirs))
    assert [row.target for row in rows] == list(TARGETS)
    for row in rows:
        assert row.mean == pytest.approx(2 ** (18 / 20)) and row.missed == 0
        assert row.worst == pytest.approx(0.5) and row.best == pytest.approx(2.0)
        assert row.low <= row.mean <= row.high <= 2.0 + 1e-9


def test_who_never_arrives_counts_against_itself():
    """A rival's last second is a lower bound; our own miss counts ten times the time we had."""
    arrives, stuck = speedups.planned_times(planned(1.0)), speedups.planned_times(planned(1.0, (0.5, 0.6)))
    at97 = [list(speedups.compare("a", *pair))[2] for pair in ((arrives, "b", stuck), (stuck, "b", arrives))]
    assert at97[0].mean == pytest.approx(2 / 4)
    assert at97[1].mean == pytest.approx(4 / 20) and at97[1].missed == 1


@pytest.mark.slow
def test_the_study_in_miniature(tmp_path, monkeypatch):
    """Two units of real runs, interrupted between them and continued, then its table, picture and JSON."""
    data = load("nslkdd-synth")

    def few(seeds, ablations=True):
        for name in ("fedavg", "amsfl"):
            configs = next(u for u in units(seeds) if u.name == name).configs[:3]
            yield Unit(name, [c.model_copy(update={"rounds": 2}) for c in configs])

    monkeypatch.setattr(adaptivity, "units", few)
    adaptivity.run(tmp_path, data, [1, 2, 3])
    first = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("unit-*")}
    adaptivity.run(tmp_path, data, [1, 2, 3])
    assert first == {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("unit-*")}
    found = adaptivity.read(tmp_path)
    assert set(found) == {"fedavg", "amsfl"}
    assert all(
        len(track.accuracy) == len(track.seconds) == 2 for tracks in found.values() for track in tracks
    )
    for name in ("fedavg", "amsfl"):  # whole grids, so that there is something to tabulate
        fake = [t._asdict() for t in planned(1.0 if name == "amsfl" else 2.0)]
        if name == "fedavg":
            fake = [
                t | {"lr": lr, "steps": s, "profile": p}
                for t in fake
                for lr in (0.05, 0.5)
                for s in (2, 20)
                for p in ("mild", "slow-big")
            ]
        write_sealed(tmp_path / f"unit-{name}.json", {"name": name, "paths": fake})
    done = CliRunner().invoke(app, ["study", "adaptivity", "--only-report", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "speedups.json").read_text())
    assert {row["against"] for row in rows} >= {"FedAvg, 20 steps, lr 0.05", "fedavg, best lr and steps"}
    assert all(math.isfinite(row["mean"]) and row["low"] <= row["mean"] <= row["high"] for row in rows)
    assert (tmp_path / "speedups.png").stat().st_size > 10_000
    assert "| who | against | to 89% |" in (tmp_path / "speedups.md").read_text()


def test_bench_in_miniature():
    """Our side of benchmarks/ must not rot: it trains, and says how fast."""
    found = bench.measure(
        bench.Job(clients=6, cohort=3, steps=10, batch=16, rounds=8), load("digits"), repeat=1
    )
    assert found["client_steps_per_second"] > 0 and len(found["each"]) == 1
    assert found["accuracy"] > 0.3 and found["rounds"] == 8


def test_bench_command_refuses_other_jobs():
    done = CliRunner().invoke(app, ["bench", "--job", "Z"])
    assert done.exit_code == 2


def test_check_says_what_a_run_supports(tmp_path):
    runner = CliRunner()
    options = ["--data", "digits", "--model", "softmax", "--method", "fedavg", "--rounds", "4", "--readings"]
    assert runner.invoke(app, ["run", *options, "--out", str(tmp_path / "run")]).exit_code == 0
    done = runner.invoke(app, ["check", str(tmp_path / "run"), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"name", "form", "holds"} <= set(found[0]) and any(claim["holds"] for claim in found)
    assert runner.invoke(app, ["check", str(tmp_path / "run")]).exit_code == 0
    assert runner.invoke(app, ["check", str(tmp_path)]).exit_code == 2
