"""`amsfl bench` in miniature."""

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
