"""The SuperLink's own death: with `--database` it comes back to the nodes and keys that it knew.

A minute of process starts, so it is marked slow: `pytest --slow tests/test_flower_link.py`.
"""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.federation import serve_config
from amsfl.flower.deploy.processes import Federation, loopback
from amsfl.flower.deploy.run import write_app
from amsfl.flower.deploy.shards import deal
from amsfl.record import holds_record, read_run

SETTINGS: dict[str, Any] = {"method": "fedavg", "data": "digits", "model": "softmax", "clients": 2, "lr": 0.5}


def rounds(out: Path) -> int:
    return len(read_run(out).rounds) if holds_record(out) else 0


def until(done: Any, running: Federation, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}"
            for path in running.home.glob("*.log")
        )
        time.sleep(0.2)


@pytest.mark.slow
def test_a_superlink_that_is_killed_comes_back_and_the_run_goes_on(tmp_path: Path) -> None:
    out, shards = tmp_path / "run", deal(serve_config(SETTINGS), tmp_path / "shards")
    common = {**SETTINGS, "out": str(out), "shards": str(tmp_path / "shards"), "deadline": 60.0}
    write_app(tmp_path / "first", {**common, "rounds": 1000})
    write_app(tmp_path / "second", {**common, "rounds": 1000, "resume": True})
    with loopback(tmp_path / "flower", database=tmp_path / "superlink.db") as running:
        for place, shard in enumerate(shards):
            running.node(f"node-{place}", {"partition-id": place, "shard": str(shard)})
        run = running.start("run", ["flwr", "run", str(tmp_path / "first"), "local", "--stream"])
        until(lambda: rounds(out) >= 2, running)
        running.end("superlink", signal.SIGKILL)
        run.wait(60)
        until(lambda: not _grows(out), running)  # the ServerApp went with it
        before = rounds(out)
        nodes = {name: process.pid for name, process in running.running.items() if name.startswith("node")}
        running.link()  # the same command, the same database
        running.start("again", ["flwr", "run", str(tmp_path / "second"), "local", "--stream"])
        until(lambda: rounds(out) >= before + 2, running)
        alive = {name for name in nodes if running.running[name].poll() is None}
        assert alive == set(nodes), "the SuperNodes waited for it"
    kept = [record.round for record in read_run(out).rounds]
    assert kept == list(range(1, len(kept) + 1))


def _grows(out: Path) -> bool:
    before = rounds(out)
    time.sleep(2)
    return rounds(out) > before
