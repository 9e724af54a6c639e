"""Clients that join a run under way."""

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from least_squares import least_squares
from real_federation import kept_federation

from amsfl.core import UserError
from amsfl.flower import numpy_client, serve
from amsfl.flower.deploy import builtin_app
from amsfl.flower.in_process import InProcessGrid
from amsfl.record import read_run
from amsfl.simulation import serve_config

trainer = least_squares(5)
SETTINGS: dict[str, Any] = {"clients": 3, "rounds": 7, "lr": 0.1, "poll": 0.001, "patience": 20.0, "steps": 2}
LATE = 3  # rounds that are over when the others come


class GrowingGrid(InProcessGrid):
    """Three nodes, and the others after the orders of three rounds."""

    rounds = 0

    def get_node_ids(self) -> Any:
        return list(self.contexts)[: 3 if self.rounds <= LATE else None]

    def push_messages(self, messages: Any) -> Any:
        todo = list(messages)
        self.rounds += any("order" in message.content for message in todo)
        return super().push_messages(todo)


def grid(count: int, **last: Any) -> GrowingGrid:
    some = [{"partition-id": place, "known-step-seconds": 0.01} for place in range(count)]
    return GrowingGrid(numpy_client(trainer), [*some[:-1], some[-1] | last])


@pytest.mark.parametrize("method", ["fedavg", "amsfl", "scaffold"])
def test_who_joins_is_in_the_next_plans(method: str, tmp_path: Path) -> None:
    asked = {**SETTINGS, "method": method, "most_clients": 4, "out": str(tmp_path / "run")}
    state, records = serve(grid(5), asked)
    cohorts = [set(record.cohort) for record in records]
    assert all(each == {0, 1, 2} for each in cohorts[:LATE])
    first = next(place for place, each in enumerate(cohorts) if 3 in each)
    assert LATE <= first <= LATE + 2 and all(each == {0, 1, 2, 3} for each in cohorts[first:])
    notes = [note for record in records for note in record.plan["notes"]]
    assert any(note.startswith("client 3 ('3') joined after round") for note in notes)
    refused = [item["reason"] for record in records for item in record.plan["refused"]]
    assert [reason.split(" ", 2)[2] for reason in refused] == [
        "('4') cannot join: it is not one of the 3 registered clients"
    ]
    assert state.steps[3] > 0 and len(state.measured.rest) == 4
    manifest = read_run(tmp_path / "run").manifest
    assert manifest.about["clients"]["names"] == ["0", "1", "2", "3"]
    again = GrowingGrid(numpy_client(trainer), [{"partition-id": place} for place in range(4)])
    again.rounds = LATE + 1
    _, records = serve(again, {**asked, "rounds": 9, "resume": True})
    assert len(records) == 9 and set(records[-1].cohort) == {0, 1, 2, 3}


def test_nobody_joins_unasked() -> None:
    state, records = serve(grid(4), {**SETTINGS, "method": "fedavg"})
    assert len(state.clients) == 3 and all(set(record.cohort) == {0, 1, 2} for record in records)
    with pytest.raises(UserError, match=r"cannot join later: noise and budgets of privacy"):
        serve(grid(4), {**SETTINGS, "method": "fedavg", "epsilon": 5.0, "most_clients": 4})


@pytest.mark.slow
def test_a_real_node_joins_after_round_three(tmp_path: Path) -> None:
    """A SuperLink and three SuperNodes; a fourth is started when three rounds are over."""
    asked = {"method": "amsfl", "data": "digits", "model": "softmax", "rounds": 40, "eval_every": 10}
    asked |= {"give_up": 60.0}
    shards = builtin_app.deal(serve_config({**asked, "clients": 4}), tmp_path / "shards")
    folder, app = tmp_path / "run", tmp_path / "app"
    whole = {**asked, "clients": 3, "most_clients": 4, "out": str(folder), "shards": str(tmp_path / "shards")}
    builtin_app.write_app(app, whole)
    with kept_federation(tmp_path / "flower", folder) as federation:
        nodes = [(place, {"partition-id": place, "shard": str(shard)}) for place, shard in enumerate(shards)]
        for place, config in nodes[:3]:
            federation.keep_node(f"node-{place}", config)
        federation.start_run(app)
        while federation.rounds() < LATE and federation.run.poll() is None:
            time.sleep(0.1)
        federation.keep_node("node-3", nodes[3][1])
        federation.run.wait()
    rounds = read_run(folder).rounds
    assert len(rounds) == 40 and all(3 not in record.cohort for record in rounds[:LATE])
    joined = next(place for place, record in enumerate(rounds) if 3 in record.cohort)
    print(f"it was in {sum(3 in record.cohort for record in rounds)} rounds, the first is {joined + 1}")
    assert all(set(record.cohort) == {0, 1, 2, 3} for record in rounds[joined:])
