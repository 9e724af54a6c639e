"""Amounts predicted by real clients: the same numbers as in simulation, scores, targets, the best model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from types import SimpleNamespace

from command_line import CliRunner
from safetensors.numpy import load_file
from sklearn.linear_model import SGDRegressor
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

import amsfl
from amsfl import methods, portable
from amsfl.cli.app import app
from amsfl.core import UserError
from amsfl.data import load
from amsfl.flower import Shard, evaluator, jax_client, serve, sklearn_client
from amsfl.flower.client.jax_client import JaxTrainer
from amsfl.flower.deploy.builtin_app import deal, first_model, network, own_shard, scorer
from amsfl.flower.in_process import InProcessGrid
from amsfl.record import read_run
from amsfl.simulation import serve_config

ROUNDS = {"method": "fedavg", "steps": 3, "rounds": 4, "lr": 0.1, "batch": 16, "seed": 0}
QUICK = {"patience": 20.0, "poll": 0.001}


@pytest.fixture(scope="module")
def rent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rent by size, three sites, far from 0 so that units matter."""
    rng = np.random.default_rng(0)
    size = rng.uniform(20, 120, 150)
    money = 5_000 + 9 * size + rng.normal(0, 20, 150)
    lines = [f"{a:.1f},{'abc'[i % 3]},{b:.2f}" for i, (a, b) in enumerate(zip(size, money, strict=True))]
    path = tmp_path_factory.mktemp("rent") / "rent.csv"
    path.write_text("\n".join(["size,site,rent", *lines]), encoding="utf-8")
    return path


def dealt(path: Path, folder: Path, **more: Any) -> tuple[InProcessGrid, dict[str, Any]]:
    """Three clients that hold their own files, and the settings of their server."""
    settings = ROUNDS | {"data": str(path), "label": "rent", "model": "softmax"} | more
    shards = deal(serve_config(settings), folder)
    nodes = [{"partition-id": place, "shard": str(file)} for place, file in enumerate(shards)]
    assert len(shards) == 3  # the column says so, whatever the default of clients is
    return InProcessGrid(jax_client(own_shard), nodes, {"model": "softmax"}), settings | QUICK | {
        "clients": 3
    }


def test_a_federation_and_a_simulation_find_the_same_numbers(rent: Path, tmp_path: Path) -> None:
    """Loss, R², MAE and RMSE of each round, in the user's units; scikit-learn agrees about the last."""
    grid, settings = dealt(rent, tmp_path / "shards")
    out = tmp_path / "run"
    first = first_model(tmp_path / "shards", "softmax", 0)
    judge = scorer(tmp_path / "shards", "softmax")
    known = network(tmp_path / "shards", "softmax")
    state, rounds = serve(grid, settings | {"out": str(out)}, judge, first, network=known)
    same = ROUNDS | {"data": str(rent), "label": "rent", "client_column": "site", "model": "softmax"}
    alone = amsfl.run(**same, engine="loop")
    np.testing.assert_allclose(state.anchor, alone.params, atol=1e-6)
    for here, there in zip(rounds, alone.rounds, strict=True):
        for name in ("r2", "mae", "rmse", "loss"):
            assert here.metrics["holdout"][name] == pytest.approx(there.metrics["holdout"][name], rel=1e-4)
    x, y = load(str(rent), label="rent").evals["holdout"]
    amount = alone.parts.data.amount
    guess, true = alone.predict(x), y.astype(np.float64) * amount.scale + amount.shift
    found = read_run(out).summary
    assert found is not None and found.score == "r2" and found.accuracy is None
    last = found.metrics["holdout"]
    assert last["mae"] == pytest.approx(mean_absolute_error(true, guess), rel=1e-4)
    assert last["rmse"] == pytest.approx(mean_squared_error(true, guess) ** 0.5, rel=1e-4)
    assert last["r2"] == pytest.approx(r2_score(true, guess), abs=1e-4)
    # the folder's model has layers and preprocessing: it takes a table's rows, as a simulation's does
    kept = portable.load(out, "last")
    assert {*kept.tensors} == {*alone.model.tensors} and kept.features == alone.model.features
    np.testing.assert_allclose(kept.predict(rent), alone.model.predict(rent), rtol=1e-4)
    assert known is not None
    wanted, best = known.tensors(state.best), load_file(out / "model-best.safetensors")
    assert (
        all(np.array_equal(best[name], part) for name, part in wanted.items())
        and best.keys() == wanted.keys()
    )
    card = json.loads((out / "model.json").read_text())["about"]
    assert card["score"] == "r2" and card["best"]["score"] == max(r.metrics["holdout"]["r2"] for r in rounds)
    page = CliRunner().invoke(app, ["report", str(out)])
    assert page.exit_code == 0, page.output
    assert "R²" in (out / "report" / "report.html").read_text(encoding="utf-8")


def test_targets_of_amounts_end_a_federation(rent: Path, tmp_path: Path) -> None:
    """AMSFL, by the server's R² and by the clients' own mean absolute error, in the user's money."""
    grid, settings = dealt(rent, tmp_path / "shards", method="amsfl", rounds=40)
    first, judge = (
        f(tmp_path / "shards", "softmax", *more) for f, more in ((first_model, (0,)), (scorer, ()))
    )
    state, rounds = serve(grid, settings | {"target": "r2=0.8"}, judge, first)
    assert state.reached and len(rounds) < 40 and rounds[-1].metrics["holdout"]["r2"] >= 0.8
    source = load(str(rent), label="rent")
    assert source.amount is not None
    x, y, unit = source.x, source.y, source.amount.scale

    def shard(context: Any) -> Shard:
        mine = slice(int(context.node_config["partition-id"]), None, 3)
        return Shard(x[mine], y[mine], 0, "softmax", test=(x[mine], y[mine]), unit=unit)

    nodes = [{"partition-id": place} for place in range(3)]
    own = settings | {
        "data": "own",
        "method": "fedavg",
        "steps": 1,
        "target": "mae=60",
        "evaluate_clients": 1,
    }
    state, rounds = serve(InProcessGrid(jax_client(shard), nodes), own)
    found = rounds[-1].metrics["clients"]
    assert state.reached and len(rounds) < 40 and found["mae"] <= 60 < rounds[0].metrics["clients"]["mae"]
    assert found["rmse"] == pytest.approx(found["mse"] ** 0.5) and state.best_round == len(rounds)
    best = np.abs(x @ state.best[:-1] + state.best[-1] - y).mean() * unit
    assert found["mae"] == pytest.approx(best, rel=1e-3)


def test_own_models_and_own_servers_have_the_same_scores() -> None:
    """A linear model in scikit-learn, its server's evaluator, and what clients tell of their own rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(90, 2))
    y = x @ [2.0, -1.0] + 3

    def rows(context: Any) -> Any:
        mine = slice(int(context.node_config["partition-id"]), None, 3)
        return x[mine], y[mine]

    client = sklearn_client(lambda: SGDRegressor(learning_rate="constant", eta0=0.05), rows, test_rows=rows)
    judge = evaluator(lambda params, held: held @ params[:2] + params[2], {"holdout": (x, y)})
    settings = QUICK | {"method": "fedavg", "steps": 5, "rounds": 3, "clients": 3, "evaluate_clients": 1}
    state, rounds = serve(
        InProcessGrid(client, [{"partition-id": place} for place in range(3)]), settings, judge
    )
    last = rounds[-1].metrics
    guess = x @ state.anchor[:2] + state.anchor[2]
    for split in ("holdout", "clients"):
        assert last[split]["mae"] == pytest.approx(mean_absolute_error(y, guess), rel=1e-5)
        assert last[split]["rmse"] == pytest.approx(mean_squared_error(y, guess) ** 0.5, rel=1e-5)
    assert last["holdout"]["r2"] == pytest.approx(r2_score(y, guess), abs=1e-6)


def test_what_amounts_cannot_have_is_said_before_anything_starts(rent: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="learns from a teacher's classes, and the label"):
        dealt(rent, tmp_path, method="fedcsda")
    with pytest.raises(UserError, match="'f1' is of classes"):
        dealt(rent, tmp_path, score="f1")


@pytest.mark.slow
def test_a_real_federation_predicts_amounts(rent: Path, tmp_path: Path) -> None:
    """`amsfl deploy` as it is typed: processes of their own, the score on the screen and on record."""
    out = tmp_path / "run"
    flags = ["--rounds", "3", "--model", "softmax", "--out", str(out)]
    done = CliRunner().invoke(app, ["deploy", "--data", str(rent), "--label", "rent", *flags])
    assert done.exit_code == 0, done.output
    assert "R² " in done.output and "mean absolute error" in done.output
    found = read_run(out).summary
    assert found is not None and found.score == "r2" and found.metrics["holdout"]["r2"] > 0


def test_tokens_beyond_the_vocabulary_are_refused_at_the_client():
    """An index beyond the table would be cut off in silence."""
    shard = Shard(np.full((1, 4), 99.0, np.float32), np.zeros(1, np.int32), 2, "transformer:16-1-20")
    with pytest.raises(UserError, match="token 99"):
        JaxTrainer(shard).begin(SimpleNamespace(batch=1), None, methods.make("fedavg"))
