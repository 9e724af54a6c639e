"""Rules over real replies: what was refused or weighed down is on record, and in the report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner
from flower_project import project
from safetensors.numpy import load_file

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl import data
from amsfl.cli.app import app as commands
from amsfl.flower import Shard, jax_client, messages
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server import costs
from amsfl.flower.server.options import ServerOptions
from amsfl.flower.server.server import FlowerServer
from amsfl.record import read_run
from amsfl.report.comparison import compare
from amsfl.report.read import read
from amsfl.report.tables import clients
from amsfl.simulation import serve_config

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
    "robust": "cap:0.25,median",
}


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax")


CLIENT = jax_client(shard)


class Strangers(InProcessGrid):
    """The last node turns its uploads round, thrice; the one before sends NaN in the second round."""

    def answer(self, message: Any) -> Any:
        node, answer = message.metadata.dst_node_id, super().answer(message)
        if message.metadata.message_type != "train" or answer.has_error() or node < 1003:
            return answer
        reply = messages.unpack_reply(answer.content)
        if node == 1004:
            false = {"delta": -3 * reply.parts["delta"]}
        else:
            false = {"delta": reply.parts["delta"] * (np.nan if reply.round == 1 else 1)}
        answer.content = messages.pack_reply(reply._replace(parts=reply.parts | false))
        return answer


def test_record_and_report_say_who_was_refused_or_weighed_down_and_why(tmp_path: Path) -> None:
    out = tmp_path / "run"
    _, records = FlowerServer(Strangers(CLIENT, NODES), serve_config(SETTINGS), ServerOptions(out=out)).run()
    for record in records:
        assert [*record.weighed] == ["claimed", "cap:0.25", "median"]
        assert np.argmin(record.weighed["median"]) == record.cohort.index(4)
        assert record.weighed["median"][-1] < 0.1  # pixels that are always white move nobody
    assert [item["client"] for item in records[1].plan["refused"]] == [3] and 3 not in records[1].cohort
    frame = clients(compare(read([out]))).frame
    assert frame["refused"].tolist() == [0, 0, 0, 1, 0] and "not finite" in frame["why"][3]
    assert frame["counted"][4] < 0.1 < frame["counted"][:3].min()


def test_running_statistics_are_a_middle_where_clients_are_doubted() -> None:
    from amsfl import combine, methods
    from amsfl.flower.server.update import _buffer

    parts, equal = [np.full(2, value, np.float32) for value in (1, 2, 9e9)], np.full(3, 1 / 3, np.float32)
    method, ours = methods.make("fedavg"), parts[0]
    assert _buffer(method, ours, parts, equal)[0] > 1e9
    doubting = method._replace(combine=combine.median())
    np.testing.assert_array_equal(_buffer(doubting, ours, parts, equal), [2, 2])


def test_seconds_that_nobody_sees_are_steps_where_clients_are_doubted() -> None:
    """Replies of two others take 1 s besides their steps. One that says its 10 steps took nothing, and came
    after 25 s, has 5 s for the rest and 2 s a step; where nobody doubts, it is believed."""
    seen = costs.start(3)
    for who in (0, 1):
        seen = costs.observe(seen, who, costs.ReplyTimes(10, 0.5, 6.0), 0.0)
    times = costs.ReplyTimes(10, 0.0, 25.0)
    believed, doubted = (costs.observe(seen, 2, times, 0.0, wary) for wary in (False, True))
    assert (believed.step[2], believed.rest[2]) == ([0.0], [25.0])
    np.testing.assert_allclose([doubted.step[2], doubted.rest[2]], [[2.0], [5.0]])


PROJECT = project("strangers", "server:app", "client:app", "clients = 5\n")
SERVER = """
from amsfl.flower import server_app

app = server_app(method="fedavg", lr=0.5)
"""
STRANGERS = """
import numpy as np
from flwr.clientapp import ClientApp

from amsfl.flower import NumpyTrainer, numpy_client, messages


def make(context):
    place = context.node_config["partition-id"]
    goal = np.float32([1, 2, 3]) + np.float32(place) / 100
    rows = 10**6 if place == 4 else 10
    return NumpyTrainer(rows, np.zeros(3, np.float32), lambda x, step, order: (0.0, x - goal))


class Strange(ClientApp):
    honest = numpy_client(make)

    def __call__(self, message, context):
        answer = self.honest(message, context)
        if message.metadata.message_type == "train" and context.node_config["partition-id"] == 4:
            reply = messages.unpack_reply(answer.content)
            answer.content = messages.pack_reply(reply._replace(parts={"delta": -3 * reply.parts["delta"]}))
        return answer


app = Strange()
"""


@pytest.mark.slow
def test_a_lying_supernode_among_five_is_weighed_down_on_record_and_in_the_report(tmp_path: Path) -> None:
    """Separate processes on loopback: four go to (1, 2, 3), give or take 0.03; the fifth claims a million
    rows and turns its uploads round, thrice. Without a rule the same federation goes the other way."""
    app = tmp_path / "app"
    (app / "strangers").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT)
    for name, text in {"__init__": "", "client": STRANGERS, "server": SERVER}.items():
        (app / "strangers" / f"{name}.py").write_text(text)
    found, common = {}, ["deploy", str(app), "--rounds", "3", "--steps", "3", "--json"]
    for name, rule in {"ruled": ["--robust", "cap:0.2,median"], "plain": []}.items():
        result = CliRunner().invoke(commands, [*common, *rule, "--out", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        found[name] = read_run(tmp_path / name)
    for record in found["ruled"].rounds:
        counts = [record.weighed[link][record.cohort.index(4)] for link in ("claimed", "cap:0.2", "median")]
        np.testing.assert_allclose(counts[1:], [0.2, 0], atol=1e-6)
        assert counts[0] > 0.9, "a million rows, bounded by a hundred times the others'"
    liar = clients(compare(read([tmp_path / "ruled"]))).frame.loc[4]
    assert liar["counted"] < 1e-6 < liar["claimed"]
    ruled, plain = (load_file(tmp_path / name / "model.safetensors") for name in found)
    gone = 1 - 0.5 ** (3 * 3)  # halfway in every step
    np.testing.assert_allclose(np.concatenate([*ruled.values()]), gone * np.array([1, 2, 3]), atol=0.05)
    assert (np.concatenate([*plain.values()]) < 0).all()
