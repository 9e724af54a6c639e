"""docs/protocol.md is enough: a client written from it alone does what ours do, and its transcript holds."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

import plain_client

from amsfl import drift, methods
from amsfl.clock.profile import SPENDING
from amsfl.flower import NumpyTrainer, messages, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.planning.planner import Decision, Planner, PlannerMemory
from amsfl.record.schema import RoundRecord

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text()
NODES = [{"partition-id": node} for node in range(3)]


def ours(context: Any) -> NumpyTrainer:
    rows = plain_client.rows_of(context.node_config["partition-id"])
    a, b = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])

    def gradient(x: Any, step: int, order: Any) -> tuple[float, Any]:
        left = a @ x - b
        return float((left**2).mean() / 2), a.T @ left / len(b)

    return NumpyTrainer(len(b), np.zeros(3, np.float32), gradient)


def run(app: Any, method: str, plan_by: Any = None, **more: Any) -> tuple[Any, list[RoundRecord]]:
    settings = {"method": method, "clients": 3, "rounds": 4, "poll": 0.01, "give_up": 60.0, **more}
    settings |= {} if methods.make(method).facts.own_rate else {"lr": 0.3}
    settings |= {"policy": "fixed", "steps": 3}
    return serve(InProcessGrid(app, NODES), settings, plan_by=plan_by)


def test_it_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(plain_client.__file__).read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    found |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert found == {"flwr.app", "flwr.clientapp", "math", "struct", "time"}


@pytest.mark.parametrize("method", [name for name in methods.METHODS.table if name != "fedcsda"])
def test_the_plain_client_does_what_ours_do(method: str) -> None:
    theirs, found = run(plain_client.app, method, round_end="all")  # some would not wait by themselves
    mine, wanted = run(numpy_client(ours), method, round_end="all")
    assert not [item for record in found for item in record.plan["refused"]]
    assert [record.cohort for record in found] == [[0, 1, 2]] * 4
    np.testing.assert_allclose(theirs.anchor, mine.anchor, rtol=2e-4, atol=2e-5)
    for one, two in zip(found, wanted, strict=True):
        assert one.steps == two.steps
        for name, column in two.readings.items():
            theirs_mine = (np.array(each, float) for each in (one.readings[name], column))  # None: NaN
            np.testing.assert_allclose(*theirs_mine, rtol=2e-3, atol=1e-5, err_msg=name)


def returned(weights: Any) -> Planner:
    """Three steps each, of a judge that has gone back twice: clients' drift is corrected."""
    judge = drift.new_judge(3)._replace(backs=(1, 3))
    memory = PlannerMemory(drift.Rate(), drift.start(0), judge=judge)
    return Planner(
        lambda: memory, lambda *_: Decision(np.full(3, 3), 0.2, 1.0, {}), lambda memory, *_: memory
    )


def test_the_plain_client_corrects_its_drift() -> None:
    theirs, found = run(plain_client.app, "amsfl", plan_by=returned)
    mine, wanted = run(numpy_client(ours), "amsfl", plan_by=returned)
    plain, _ = run(numpy_client(ours), "amsfl", plan_by=returned, options={"correction": 0.0})
    assert [record.bytes_down for record in found] == [36.0, 72.0, 72.0, 72.0]
    assert [record.bytes_down for record in wanted] == [36.0, 72.0, 72.0, 72.0]
    np.testing.assert_allclose(theirs.anchor, mine.anchor, rtol=2e-4, atol=2e-5)
    assert not np.allclose(plain.anchor, mine.anchor, atol=1e-2)


def test_its_scores_count() -> None:
    _, records = run(plain_client.app, "fedavg", evaluate_clients=1)
    losses = [record.metrics["clients"]["loss"] for record in records]
    assert losses == sorted(losses, reverse=True) and records[-1].metrics["clients"]["rows"] == 18


def test_the_page_names_every_field_and_every_method() -> None:
    for kind in (messages.Order, messages.Hello):
        known = {*kind._fields, *SPENDING} - {"options", "model", "buffers", "spends", "terms"}
        assert [field for field in known if f"`{field}`" not in PAGE and f".{field}`" not in PAGE] == []
    for field in (
        *messages.Reading._fields,
        "steps",
        "rows",
        "step_seconds",
        "compute_seconds",
        "lost_state",
        "plain_steps",
    ):
        assert f"`{field}`" in PAGE, field
    for name in methods.METHODS.table:
        assert name in PAGE, name


def test_the_transcript_is_what_travels() -> None:
    done = subprocess.run(
        [sys.executable, "tools/protocol_transcript.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
