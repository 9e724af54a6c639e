"""What goes wrong in the field, each by itself: slow clients, full disks, clocks that jump, a dead link.

Those on real nodes are slow: `pytest --slow tests/flower/test_flower_trials.py`.
"""

import errno
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from counting_proxy import CountingProxy

from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.deploy.builtin_app import deal, write_app
from amsfl.flower.deploy.processes import Federation, loopback
from amsfl.flower.deploy.run import deploy
from amsfl.flower.in_process import InProcessGrid
from amsfl.record import disk, holds_record, read_run
from amsfl.simulation import serve_config

SETTINGS: dict[str, Any] = {"method": "fedavg", "clients": 3, "rounds": 6, "steps": 2, "lr": 0.5}
QUICK = {**SETTINGS, "poll": 0.001, "patience": 20.0}


def make(context: Any) -> NumpyTrainer:
    return NumpyTrainer(10, np.zeros(4, np.float32), lambda x, step, order: (float(x @ x) + 1, x - 1))


def nodes(folder: Path) -> list[dict[str, Any]]:
    return [{"partition-id": place, "state-dir": str(folder / str(place))} for place in range(3)]


def full_disk(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_at_a_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The site says why it sends nothing; the others go on, and so does the site when there is room again."""
    write, full = disk.write_all, {"now": False}

    class FillingGrid(InProcessGrid):
        def answer(self, message: Any) -> Any:
            train = message.metadata.message_type == "train"
            number = int(message.content["order"]["round"]) if train else -1
            full["now"] = message.metadata.dst_node_id == 1001 and number in (2, 3)
            reply = super().answer(message)
            full["now"] = False
            return reply

    monkeypatch.setattr(disk, "write_all", lambda *a: full_disk() if full["now"] else write(*a))
    _, records = serve(FillingGrid(numpy_client(make), nodes(tmp_path)), QUICK)
    assert [1 in each.cohort for each in records] == [True, True, False, False, True, True]
    reasons = [item["reason"] for each in records for item in each.plan["refused"]]
    assert len(reasons) == 2 and all("No space left" in reason for reason in reasons)


def test_full_disk_at_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The run ends with a sentence; what is on record is whole, and it goes on when there is room again."""
    out, settings = tmp_path / "run", {**QUICK, "out": str(tmp_path / "run")}
    write = disk.write_all
    grid = InProcessGrid(numpy_client(make), nodes(tmp_path))

    def fills(file: Any, data: bytes) -> None:
        path = out / "rounds.jsonl"
        if path.exists() and path.read_bytes().count(b"\n") >= 3:
            full_disk()
        write(file, data)

    monkeypatch.setattr(disk, "write_all", fills)
    with pytest.raises(UserError, match="No space left"):
        serve(grid, settings)
    monkeypatch.setattr(disk, "write_all", write)
    kept = [each.round for each in read_run(out).rounds]
    assert kept == list(range(1, len(kept) + 1)) and len(kept) < 6
    state, _ = serve(grid, {**settings, "resume": True})
    assert state.round == 6 and [each.round for each in read_run(out).rounds] == list(range(1, 7))


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_clock_that_jumps(jump: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A day on or back, in the third round: durations are monotonic, so nothing is late or negative."""
    now, ahead = time.time, {"by": 0.0}

    class JumpingGrid(InProcessGrid):
        def answer(self, message: Any) -> Any:
            if message.metadata.message_type == "train" and message.content["order"]["round"] == 2:
                ahead["by"] = jump
            return super().answer(message)

    monkeypatch.setattr(time, "time", lambda: now() + ahead["by"])
    _, records = serve(JumpingGrid(numpy_client(make), nodes(tmp_path)), QUICK)
    assert [each.cohort for each in records] == [[0, 1, 2]] * 6
    assert all(0 <= each.round_seconds["makespan"] < 60 for each in records)


class Killed(BaseException):
    """Nothing catches it: as good as a SIGKILL to what runs in this process."""


class MortalGrid(InProcessGrid):
    """The server dies when it has sent `sent` orders of a round, counted from 0."""

    def __init__(self, folder: Path, number: int, sent: int):
        super().__init__(numpy_client(make), nodes(folder))
        self.number, self.sent = number, sent

    def push_messages(self, messages: Any) -> Any:
        every = list(messages)
        train = [each for each in every if each.metadata.message_type == "train"]
        if train and int(train[0].content["order"]["round"]) == self.number:
            for each in every[: self.sent]:
                self.answer(each)  # a node works on it, and nobody hears
            raise Killed
        return super().push_messages(every)


@pytest.mark.parametrize(
    ("number", "sent"),
    [(0, 0), (0, 3), (1, 0), (3, 2)],
    ids=["before_the_first_round", "in_the_first_round", "after_the_first_round", "while_sending_a_model"],
)
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "amsfl"])
def test_server_killed(method: str, number: int, sent: int, tmp_path: Path) -> None:
    """The resumed run makes the model of one that nobody killed: clients go back to what the server took."""
    settings = {**QUICK, "method": method, "policy": "fixed"}
    whole, _ = serve(InProcessGrid(numpy_client(make), nodes(tmp_path / "whole")), settings)
    out, sites = str(tmp_path / "run"), tmp_path / "sites"
    with pytest.raises(Killed):
        serve(MortalGrid(sites, number, sent), {**settings, "out": out})
    state, records = serve(
        InProcessGrid(numpy_client(make), nodes(sites)), {**settings, "out": out, "resume": True}
    )
    assert [each.round for each in records] == list(range(1, 7))
    assert not [note for each in records for note in each.plan["notes"] if "lost its state" in note]
    np.testing.assert_allclose(state.anchor, whole.anchor, rtol=1e-6)


# -- on real nodes -----------------------------------------------------------------------------------


def logged(folder: Path, client: int) -> dict[int, int]:
    """Steps that a site says it sent, by round, from its own log."""
    lines = (folder / f"orders-{client}.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return {
        each["order"]["round"]: each["sent"]["report"]["steps"] for each in entries if each["what"] == "train"
    }


@pytest.mark.slow
@pytest.mark.parametrize("end", ["all", "deadline:8", "quorum:2", "buffer:2"])
def test_a_slow_job(end: str, tmp_path: Path) -> None:
    """One of three is twenty times slower. Steps on record are those that the sites' own logs have."""
    settings = {"method": "amsfl", "data": "digits", "model": "softmax", "clients": 3, "rounds": 6}
    summary = deploy(
        {**settings, "round_end": end}, tmp_path / "run", (1, 1, 20), 0.02, say=lambda line: None
    )
    assert summary.status == "finished" and summary.rounds == 6
    own = [logged(tmp_path / "run" / "clients", client) for client in range(3)]
    counted = 0
    for record in read_run(tmp_path / "run").rounds:
        ages = record.staleness or [0] * len(record.cohort)
        for who, steps, age in zip(record.cohort, record.steps, ages, strict=True):
            begun = record.round - 1 - age
            sent = [count for number, count in own[who].items() if number >= begun]
            assert steps in sent, (end, who, record.round, own[who])
            counted += 1
    assert counted >= 6


def until(done: Any, running: Federation, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, running.log("run").read_text(errors="replace")[-3000:]
        time.sleep(0.3)


@pytest.mark.slow
def test_a_link_that_drops_everything_for_a_minute(tmp_path: Path) -> None:
    """One of three nodes loses its link in the middle of a run; the others go on, and it comes back."""
    settings = {**SETTINGS, "data": "digits", "model": "softmax", "rounds": 1000, "give_up": 20.0}
    out, shards = tmp_path / "run", deal(serve_config(settings), tmp_path / "shards")
    write_app(tmp_path / "app", {**settings, "out": str(out), "shards": str(tmp_path / "shards")})
    with loopback(tmp_path / "flower") as running, CountingProxy(running.port) as proxy:
        for place, path in enumerate(shards):
            there = replace(running, port=proxy.port) if place == 2 else running
            running.start(f"node-{place}", there.node_command({"partition-id": place, "shard": str(path)}))
        running.start("run", ["flwr", "run", str(tmp_path / "app"), "local", "--stream"])
        until(lambda: holds_record(out) and len(read_run(out).rounds) >= 2, running)
        proxy.close()
        down = len(read_run(out).rounds)
        until(lambda: any(2 not in each.cohort for each in read_run(out).rounds[down:]), running)
        time.sleep(60)
        proxy.open()
        back = len(read_run(out).rounds)
        until(lambda: any(2 in each.cohort for each in read_run(out).rounds[back:]), running)
    rounds = read_run(out).rounds
    assert back > down and [each.round for each in rounds] == list(range(1, len(rounds) + 1))
    assert all({0, 1} <= {*each.cohort} for each in rounds[1:])
