"""Rules over real replies: what was refused or weighed down is on record, and in the report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl import data
from amsfl.federation import serve_config
from amsfl.flower import Shard, jax_client, wire
from amsfl.flower.rehearsal import Rehearsal
from amsfl.flower.server import costs
from amsfl.flower.server.rounds import Server
from amsfl.report.measure.describe import describe
from amsfl.report.measure.read import read
from amsfl.report.tabulate.contents import tables

DIGITS = data.load("digits")
PARTS = data.partition("iid", DIGITS.y, 5, 0)
NODES = [{"partition-id": place} for place in range(5)]
SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "clients": 5,
    "rounds": 3,
    "steps": 3,
    "batch": 16,
    "patience": 20.0,
    "poll": 0.001,
    "combine": "cap:0.25,multikrum:1",
}


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax")


CLIENT = jax_client(shard)


class Strangers(Rehearsal):
    """The last node turns its uploads round, thrice; the one before sends NaN in the second round."""

    def answer(self, message: Any) -> Any:
        node, answer = message.metadata.dst_node_id, super().answer(message)
        if message.metadata.message_type != "train" or answer.has_error() or node < 1003:
            return answer
        reply = wire.unpack_reply(answer.content)
        if node == 1004:
            false = {"delta": -3 * reply.parts["delta"]}
        else:
            false = {"delta": reply.parts["delta"] * (np.nan if reply.round == 1 else 1)}
        answer.content = wire.pack_reply(reply._replace(parts=reply.parts | false))
        return answer


def test_record_and_report_say_who_was_refused_or_weighed_down_and_why(tmp_path: Path) -> None:
    out = tmp_path / "run"
    _, records = Server(Strangers(CLIENT, NODES), serve_config(SETTINGS), out=out).run()
    for record in records:
        assert [*record.weighed] == ["claimed", "cap:0.25", "multikrum:1"]
        assert np.argmin(record.weighed["multikrum:1"]) == record.cohort.index(4)
        assert record.weighed["multikrum:1"][-1] < 1e-6
    assert [item["client"] for item in records[1].plan["refused"]] == [3] and 3 not in records[1].cohort
    (found,) = (table for table in tables(describe(read([out]))) if table.name == "doubted")
    rows = [row.values for row in found.rows]
    assert [row["refused"] for row in rows] == [0, 0, 0, 1, 0] and "not finite" in rows[3]["why"]
    assert rows[4]["low"] == 3 and rows[4]["link"] == "multikrum:1"
    assert rows[4]["counted"] < 0.1 < min(row["counted"] for row in rows[:3])


def test_running_statistics_are_a_middle_where_clients_are_doubted() -> None:
    from amsfl import combine, methods
    from amsfl.flower.server.accept import _buffer

    parts, equal = [np.full(2, value, np.float32) for value in (1, 2, 9e9)], np.full(3, 1 / 3, np.float32)
    method = methods.make("fedavg")
    assert _buffer(method, parts, equal)[0] > 1e9
    np.testing.assert_array_equal(_buffer(method._replace(combine=combine.median()), parts, equal), [2, 2])


def test_seconds_that_nobody_sees_are_steps_where_clients_are_doubted() -> None:
    """Replies of two others take 1 s besides their steps. One that says its 10 steps took nothing, and came
    after 25 s, has 5 s for the rest and 2 s a step; where nobody doubts, it is believed."""
    seen = costs.start(3)
    for who in (0, 1):
        seen = costs.observe(seen, who, 10, 0.5, 6.0, 0.0)
    believed, doubted = (costs.observe(seen, 2, 10, 0.0, 25.0, 0.0, wary) for wary in (False, True))
    assert (believed.step[2], believed.rest[2]) == ([0.0], [25.0])
    np.testing.assert_allclose([doubted.step[2], doubted.rest[2]], [[2.0], [5.0]])
