"""The ledger of real clients: scored by the server's rows as a simulation's is, or by the clients' own."""

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.cli.app import app
from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.record import read_run
from amsfl.simulation.recorded_disclosure import leaves_of
from amsfl.study.what_if import what_if
from amsfl.worth.statement import WorthStatement

GOALS = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [-3, 0, 0]], np.float32)  # the last one pulls away
NODES = [{"partition-id": place} for place in range(4)]
SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "clients": 4,
    "rounds": 6,
    "steps": 3,
    "lr": 0.2,
    "poll": 0.001,
}
ROWS = np.array([[1.0, 0, 0], [0.8, 0.2, 0], [0.7, 0.3, 0.1]])


def trainer(context: Any) -> NumpyTrainer:
    """Walks towards its own goal, and scores by how near it is."""
    goal = GOALS[int(context.node_config["partition-id"])]

    def gradient(x: Any, step: int, order: Any) -> Any:
        return float(((x - goal) ** 2).sum()) / 2, x - goal

    def evaluate(x: Any) -> dict[str, float]:
        return {"accuracy": float(np.exp(-((x - goal) ** 2).sum())), "loss": 0.0, "rows": 10.0}

    return NumpyTrainer(10, np.zeros(3, np.float32), gradient, evaluate=evaluate)


def near(params: Any, buffers: Any) -> Any:
    return np.exp(-((np.asarray(params) - ROWS) ** 2).sum(1))


def statement(tmp_path: Any, row_scores: Any = None, **changes: Any) -> WorthStatement:
    settings = {**SETTINGS, "poll": 0.001, "worth": True, "out": str(tmp_path / "run"), **changes}
    serve(InProcessGrid(numpy_client(trainer), NODES), settings, row_scores=row_scores)
    return WorthStatement.read(read_run(tmp_path / "run").summary.worth)


def test_by_the_servers_rows(tmp_path):
    """Values add up; who pulls away takes from it, and without it the model is nearer."""
    made = statement(tmp_path, near)
    assert made.exact and made.rows == len(ROWS)
    assert sum(each.adds.mean for each in made.clients) == pytest.approx(made.last - made.first)
    assert made.clients[3].adds.mean < 0 < made.clients[0].adds.mean
    looked = [each.round for each in read_run(tmp_path / "run").rounds if each.worth]
    assert looked == [1, 4, 6]
    last = read_run(tmp_path / "run").rounds[-1].worth
    assert last["score"] == pytest.approx(made.last) and last["without"][3] > last["score"]
    assert "worth" not in {leaf.name for leaf in leaves_of(tmp_path / "run")}
    assert (
        what_if(
            tmp_path / "run", read_run(tmp_path / "run").summary.worth["clients"][3]["name"]
        ).would.scores[-1]
        > made.last
    )
    answer = CliRunner().invoke(app, ["worth", str(tmp_path / "run")])
    assert answer.exit_code == 0 and "points" in answer.output, answer.output


def test_by_the_clients_own_rows(tmp_path):
    """A client's worth is what the others say: the two that agree are worth more than who pulls away."""
    made = statement(tmp_path, evaluate_clients=3)
    adds = [each.adds.mean for each in made.clients]
    assert adds[0] == pytest.approx(adds[1], abs=0.05) and adds[3] == min(adds) and made.rows == 4
    assert {"worth", "coalitions"} <= {leaf.name for leaf in leaves_of(tmp_path / "run")}


def test_resumed_to_the_same_statement(tmp_path):
    whole = statement(tmp_path / "whole", near)
    statement(tmp_path, near, rounds=3)
    assert statement(tmp_path, near, resume=True, rounds=6) == whole


def test_a_ledger_needs_rows_and_no_privacy(tmp_path):
    with pytest.raises(UserError, match="evaluate_clients"):
        statement(tmp_path)
    with pytest.raises(UserError, match="under privacy"):
        statement(tmp_path, near, epsilon=3.0)
