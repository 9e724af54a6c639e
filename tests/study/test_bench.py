"""`amsfl bench` and `amsfl check` in miniature."""

import json

from typer.testing import CliRunner

from amsfl.cli.app import app
from amsfl.data import load
from amsfl.study import bench


def test_bench_in_miniature():
    """Our side of benchmarks/ must not rot: it trains, and says how fast."""
    found = bench.measure(
        bench.BenchJob(clients=6, cohort=3, steps=10, batch=16, rounds=8), load("digits"), repeat=1
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
