"""The SuperLink's own death: with `--database` it comes back to the nodes and keys that it knew.

One of the nodes dies meanwhile, and whatever started it starts it again, as docs/flower.md says.

A minute of process starts, so it is marked slow: `pytest --slow tests/flower/test_flower_link.py`.
"""

import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.flower.deploy import leftovers
from amsfl.flower.deploy.builtin_app import deal, write_app
from amsfl.flower.deploy.processes import Federation, loopback
from amsfl.record import holds_record, read_run
from amsfl.simulation import serve_config

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
    common = {**SETTINGS, "out": str(out), "shards": str(tmp_path / "shards"), "give_up": 60.0}
    write_app(tmp_path / "first", {**common, "rounds": 1000})
    write_app(tmp_path / "second", {**common, "rounds": 1000, "resume": True})
    with loopback(tmp_path / "flower", database=tmp_path / "superlink.db") as running:
        running.node("node-0", {"partition-id": 0, "shard": str(shards[0])})
        config = f'partition-id=1 shard="{shards[1]}"'
        given = ["--insecure", "--superlink", running.address, "--node-config", config]
        node = shlex.join([sys.executable, "-m", "amsfl.flower.node.supernode", *given])
        running.start("keeper", ["bash", "-c", f"while true; do {node}; sleep 1; done"])
        run = running.start("run", ["flwr", "run", str(tmp_path / "first"), "local", "--stream"])
        until(lambda: rounds(out) >= 2, running)
        running.end("superlink", signal.SIGKILL)
        run.wait(60)
        until(lambda: not _grows(out), running)  # the ServerApp went with it
        before, (first, *_) = rounds(out), leftovers.descendants(running.running["keeper"].pid)
        os.kill(first, signal.SIGKILL)
        running.link()  # the same command, the same database
        running.start("again", ["flwr", "run", str(tmp_path / "second"), "local", "--stream"])
        until(lambda: rounds(out) > before and read_run(out).rounds[-1].cohort == [0, 1], running)
        assert running.running["node-0"].poll() is None, "it waited for the SuperLink"
        assert first not in leftovers.descendants(running.running["keeper"].pid)
    kept = [record.round for record in read_run(out).rounds]
    assert kept == list(range(1, len(kept) + 1))


def _grows(out: Path) -> bool:
    before = rounds(out)
    time.sleep(2)
    return rounds(out) > before
