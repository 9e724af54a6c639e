"""AMSFL's judge on real clients: what it did is recorded; clients hold rows back, or say that they do not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl import data, sampling
from amsfl.flower import NumpyTrainer, Shard, jax_client, numpy_client, serve, sklearn_client, torch_client
from amsfl.flower.in_process import InProcessGrid
from amsfl.record import read_run

DIGITS = data.load("digits")
PARTS = data.partition("dirichlet:0.5", DIGITS.y, 3, 0)
NODES = [{"partition-id": place} for place in range(3)]
SETTINGS: dict[str, Any] = {"method": "amsfl", "clients": 3, "batch": 16, "poll": 0.001, "patience": 20.0}
HELD = [sampling.held_count(len(rows), 0.1) for rows in PARTS]


def rows(context: Any) -> Any:
    return PARTS[int(context.node_config["partition-id"])]


def worsening(context: Any) -> NumpyTrainer:
    """A loss that grows from round to round, whatever the model."""

    def gradient(x: Any, step: int, order: Any) -> Any:
        return 1.0 + order.round, 0 * x + 0.1

    return NumpyTrainer(10, np.zeros(4, np.float32), gradient)


def test_what_the_judge_did_is_on_record(tmp_path: Path) -> None:
    """Losses of 1, 2, 3: two bad rounds, so that after the third the server is at the first anchor again and
    the rate is half of what it was."""
    settings = {**SETTINGS, "rounds": 5, "out": str(tmp_path / "run"), "options": {"cooling": 0.0}}
    state, records = serve(InProcessGrid(numpy_client(worsening), NODES), settings)
    assert [each.plan["verdict"] for each in records[:4]] == ["better", "none", "back", "none"]
    assert [each.plan["held_loss"] for each in records] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert records[3].lr == pytest.approx(records[2].lr / 2)
    assert state.memory.judge.backs[0] == 3
    summary = read_run(tmp_path / "run").summary
    assert summary is not None and "judge went back" in summary.note
    assert records[0].plan["held_rows"] == [0, 0, 0]
    assert sum("holds no rows back" in note for note in records[0].plan["notes"]) == 3


def test_a_jax_client_holds_rows_back() -> None:
    app = jax_client(lambda context: Shard(DIGITS.x[rows(context)], DIGITS.y[rows(context)], 10, "softmax"))
    _, records = serve(InProcessGrid(app, NODES), {**SETTINGS, "rounds": 2})
    assert [each.plan["held_rows"] for each in records] == [HELD] * 2
    assert not records[0].plan["notes"] and all(each > 0 for each in records[1].readings["spread"])
    _, records = serve(InProcessGrid(app, NODES), {**SETTINGS, "rounds": 1, "method": "fedavg"})
    assert "held_rows" not in records[0].plan


@pytest.mark.parametrize("optimizer", [False, True])
def test_a_torch_client_trains_on_none_of_the_rows_that_it_holds_back(optimizer: bool) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, Dataset

    drawn: dict[str, set[int]] = {"train": set(), "eval": set()}
    modules = []

    class Rows(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 40

        def __getitem__(self, place: int) -> Any:
            drawn["train" if modules[-1].training else "eval"].add(place)
            return torch.ones(3) * place / 40, torch.tensor(place % 2)

    def model() -> Any:
        modules.append(torch.nn.Linear(3, 2))
        return modules[-1]

    own = {"optimizer": lambda params, lr: torch.optim.SGD(params, lr)} if optimizer else {}
    app = torch_client(model, lambda context: DataLoader(Rows(), batch_size=4, shuffle=True), **own)
    settings = {**SETTINGS, "rounds": 4, "policy": "fixed", "steps": 8, "clients": 1}
    _, records = serve(InProcessGrid(app, [{"partition-id": 0, "known-step-seconds": 0.1}]), settings)
    _, held = sampling.hold_back(0, 0, 40, 0.1)
    assert records[-1].plan["held_rows"] == [4] and {*held} <= drawn["eval"]
    assert not {*held} & drawn["train"] and not records[0].plan["notes"]
    assert all(each.readings["held_loss"][0] > 0 and each.readings["spread"][0] > 0 for each in records)


def test_a_torch_client_whose_rows_cannot_be_told_apart_says_so() -> None:
    torch = pytest.importorskip("torch")
    batch = (torch.ones(4, 3), torch.zeros(4, dtype=torch.long))
    app = torch_client(lambda: torch.nn.Linear(3, 2), lambda context: [batch])
    _, records = serve(InProcessGrid(app, NODES[:1]), {**SETTINGS, "clients": 1, "rounds": 1})
    assert records[0].plan["held_rows"] == [0] and "no rows back" in records[0].plan["notes"][0]


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_a_scikit_learn_client_is_judged_by_rows_that_it_holds_back(loss: str) -> None:
    """It has no gradients: its readings are 0, which must not look like a dead network."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    app = sklearn_client(
        lambda: linear_model.SGDClassifier(loss=loss),
        lambda context: (DIGITS.x[rows(context)], DIGITS.y[rows(context)]),
        classes=range(10),
    )
    state, records = serve(
        InProcessGrid(app, NODES), {**SETTINGS, "rounds": 6, "policy": "fixed", "steps": 3}
    )
    assert [each.plan["held_rows"] for each in records] == [HELD] * 6
    assert (
        state.memory.judge.restarts == () and np.isfinite([each.plan["held_loss"] for each in records]).all()
    )


@pytest.mark.parametrize("rows, trained", [(90, 80), (101, 91), (40, 36), (10, 8)])
def test_no_batch_of_one_row_comes_of_holding_rows_back(rows: int, trained: int) -> None:
    """90 rows in batches of ten: nine held back would leave one alone, which batch normalisation refuses. 101
    have a lone row of their own."""
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    from amsfl.flower.client.torch_rows import hold_back

    loader = DataLoader(TensorDataset(torch.arange(rows).float()), batch_size=10)
    rest, held = hold_back(loader, 0, 0, 0.1)
    assert len(rest.dataset) == trained
    every = [number for part in (rest, held) for (batch,) in part for number in batch.tolist()]
    assert sorted(every) == list(range(rows))
