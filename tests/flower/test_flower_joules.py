"""Joules, megabytes and money of real clients: the simulation's figures, limits, and what cannot be known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

import amsfl
from amsfl import data
from amsfl.core import UserError
from amsfl.engines import models, task
from amsfl.flower import Shard, jax_client
from amsfl.flower.deploy.recipe import DeploySettings, client_speeds
from amsfl.flower.deploy.run import _node_configs
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server.options import ServerOptions
from amsfl.flower.server.run_record import summary
from amsfl.flower.server.server import FlowerServer
from amsfl.simulation import serve_config

DIGITS = data.load("digits")
PARTS = data.partition("dirichlet:0.5", DIGITS.y, 3, 0)
TASK = task.make(DIGITS, models.make("softmax", 64, 10), [PARTS], [0])
ALIKE: dict[str, Any] = {"model": "softmax", "clients": 3, "batch": 16, "seed": 0, "steps": 3, "lr": 0.1}
TABLE = "step_seconds,joules_step,joules_mb,cost_mb\n0.1,2.0,50,0.01\n0.1,1.0,100,0.02\n0.1,0.5,200,0.03\n"


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax")


CLIENT = jax_client(shard)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "sites.csv"
    path.write_text(TABLE)
    return path


def nodes(table: Path, silent: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Node-configs as `amsfl deploy --profile` makes them, without slowness."""
    *_, spends = client_speeds(table)
    recipe = DeploySettings({}, [], 0.0, False, spends=spends)
    every = _node_configs(recipe, table.parent, [{}] * 3)
    return [{k: v for k, v in each.items() if n not in silent or ("-mb" not in k and "joules" not in k)}
            for n, each in enumerate(every)]  # fmt: skip


def served(
    nodes: list[dict[str, Any]], out: Path | None = None, resume: bool = False, **settings: Any
) -> Any:
    config = serve_config({**ALIKE, "poll": 0.001, **settings})
    server = FlowerServer(InProcessGrid(CLIENT, nodes), config, ServerOptions(start=TASK.start()[0], out=out))
    state, records = server.run(resume)
    return state, records, summary(server.orders, state, records)


@pytest.mark.parametrize("how", [{"method": "fedavg"}, {"method": "scaffold"}])
def test_joules_megabytes_and_cost_are_the_simulations(how: dict[str, Any], table: Path) -> None:
    """FedAvg by hand: 3 steps of 2, 1 and 0.5 J, and 2 x 650 x 4 bytes at 50, 100 and 200 J a megabyte:
    10.5 + 0.0052 x 350 = 12.32 J a round; 0.0052 x 0.06 of money."""
    want = amsfl.run(data="digits", engine="loop", clock="makespan", partition="dirichlet:0.5", rounds=2,
                     profile=str(table), details=False, **ALIKE, **how)  # fmt: skip
    _, records, summary = served(nodes(table), rounds=2, **how)
    for mine, theirs in zip(records, want.rounds, strict=True):
        assert mine.joules == pytest.approx(theirs.joules) and mine.cost == pytest.approx(theirs.cost)
        np.testing.assert_allclose(mine.plan["client_joules"], theirs.plan["client_joules"])
        assert (mine.bytes_up, mine.bytes_down) == (theirs.bytes_up, theirs.bytes_down)
    assert summary.joules == pytest.approx(want.summary.joules) and summary.cost is not None
    if how["method"] == "fedavg":
        assert records[0].joules == pytest.approx(10.5 + 0.0052 * 350)
        assert records[0].cost == pytest.approx(0.0052 * 0.06)


def test_a_run_stops_when_its_joules_are_spent(table: Path, tmp_path: Path) -> None:
    limits = {"method": "fedavg", "joules": 30.0, "rounds": 9}
    state, records, summary = served(nodes(table), tmp_path / "run", **limits)
    assert 30 <= state.spent["joules"] == summary.joules < 50 and len(records) < 9
    state, records, _ = served(nodes(table), tmp_path / "run", resume=True, **{**limits, "joules": 60.0})
    assert (
        state.spent["joules"] == pytest.approx(sum(record.joules for record in records)) and state.round > 2
    )
    few = served(nodes(table), method="fedavg", megabytes=0.02, rounds=9)[0]
    assert few.round == 2  # 3 x 0.0052 MB a round


def test_what_nobody_says_is_not_guessed(table: Path) -> None:
    _, records, summary = served(nodes(table, silent=(1,)), method="fedavg", rounds=1)
    assert records[0].joules is summary.joules is None and "client_joules" not in records[0].plan
    assert "joules are not counted: 1 of 3 clients do not say theirs" in records[0].plan["notes"]
    with pytest.raises(UserError, match="'joules' limits joules, and not every client says"):
        served(nodes(table, silent=(1,)), method="fedavg", joules=20.0, rounds=1)
    wrong = [node | {"joules-step": -1.0} for node in nodes(table)]
    _, records, summary = served(wrong, method="fedavg", rounds=1)
    assert summary.joules is None and sum("no amount" in note for note in records[0].plan["notes"]) == 3
