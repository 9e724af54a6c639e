"""The server's side: the best model kept and exported, when to stop, a schedule of deadlines."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from safetensors.numpy import load_file

from amsfl import portable
from amsfl.clock.round_end import wait_for_all
from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, messages, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server import first_model, orders, run_record, scoring
from amsfl.flower.server.privacy_budget import PrivacyBudget
from amsfl.methods import make
from amsfl.planning.planner import policy_of
from amsfl.record import read_run
from amsfl.simulation import serve_config

SETTINGS: dict[str, Any] = {"method": "fedavg", "rounds": 6, "clients": 2, "steps": 1, "lr": 0.5}
SETTINGS |= {"poll": 0.001, "patience": 20.0}
NODES = [{"partition-id": place} for place in range(2)]
CLIENT = numpy_client(lambda context: NumpyTrainer(9, np.zeros(3, np.float32), lambda x, *_: (1.0, x - 1)))
SCORES = [0.2, 0.6, 0.5, 0.6, 0.4, 0.1]


def scored(values: Any = SCORES, name: str = "accuracy") -> Any:
    """An evaluate that gives these, one after another; and the models that it saw."""
    seen: list[Any] = []

    def evaluate(params: Any, buffers: Any) -> dict[str, dict[str, float]]:
        seen.append(params.copy())
        return {"holdout": {name: values[len(seen) - 1], "loss": 1.0}}

    return evaluate, seen


def test_the_best_round_is_kept_and_exported(tmp_path: Path) -> None:
    evaluate, seen = scored()
    state, _ = serve(InProcessGrid(CLIENT, NODES), {**SETTINGS, "out": str(tmp_path / "run")}, evaluate)
    assert (state.best_round, state.best_score) == (2, 0.6)  # of two alike the first
    found = load_file(tmp_path / "run" / "model-best.safetensors")
    np.testing.assert_array_equal(found["parameters"], seen[1])
    last = portable.load(tmp_path / "run", "last")
    np.testing.assert_array_equal(last.tensors["parameters"], seen[-1])
    assert "the best round was 2" in (tmp_path / "run" / "MODEL.md").read_text()
    assert read_run(tmp_path / "run").summary.status == "finished"


def test_it_stops_for_want_of_a_better_one_and_goes_on_where_it_was(tmp_path: Path) -> None:
    out = {"out": str(tmp_path / "run"), "stop_after": 2}
    evaluate, _ = scored()
    state, records = serve(InProcessGrid(CLIENT, NODES), {**SETTINGS, **out}, evaluate)
    assert len(records) == 4 and state.status == "finished" and state.stale == 2
    again, seen = scored([0.7, 0.1, 0.1, 0.1])
    state, records = serve(InProcessGrid(CLIENT, NODES), {**SETTINGS, **out, "resume": True}, again)
    assert len(records) == 6 and (state.best_round, state.best_score) == (5, 0.7)
    np.testing.assert_array_equal(state.best, seen[0])


@pytest.mark.parametrize("by, want", [("loss", 2), ("-mine", 3), ("mine", 4), ("", 1), ("accuracy", 1)])
def test_what_the_best_is_judged_by(by: str, want: int) -> None:
    mine, loss = iter([3.0, 2.0, 1.5, 9.0]), iter([3.0, 2.0, 2.5, 9.0])

    def evaluate(params: Any, buffers: Any) -> dict[str, dict[str, float]]:
        return {"holdout": {"mine": next(mine), "loss": next(loss), "accuracy": 0.5}}

    state, _ = serve(InProcessGrid(CLIENT, NODES), {**SETTINGS, "rounds": 4, "judge_by": by}, evaluate)
    assert state.best_round == want
    config = serve_config({})
    assert scoring.worth({"clients": {"mse": 2.0}}, config) == -2 and scoring.worth({}, config) is None
    assert scoring.worth({"clients": {"mae": 2.0, "r2": 0.5}}, serve_config({"score": "mae"})) == -2


def test_settings_that_mean_nothing_are_sentences() -> None:
    with pytest.raises(UserError, match="nobody scores this model"):
        serve(InProcessGrid(CLIENT, NODES), {**SETTINGS, "stop_after": 2})
    for wrong in ("5,,6", "0", "5;6", "1e9"):
        with pytest.raises(UserError, match="write seconds"):
            serve_config({"give_up": wrong})
    config, method = serve_config({"give_up": "600,120,60"}), make("fedavg")
    budget = PrivacyBudget(config, policy_of(config, method), None)
    writer = orders.OrderWriter(config, method, budget, wait_for_all())
    assert [writer.deadline(1e6, number) for number in range(4)] == [600, 120, 60, 60]
    evaluate, _ = scored()
    _, records = serve(InProcessGrid(CLIENT, NODES), {**SETTINGS, "rounds": 1, "judge_by": "auc"}, evaluate)
    assert records[0].plan["notes"] == ["no score 'auc' to find the best round by, of ['accuracy', 'loss']"]


def test_names_that_do_not_fit_are_not_kept() -> None:
    Leaf = messages.TensorSpec
    whole = (Leaf("a", (2, 3)), Leaf("b", ()), Leaf("tied", (2, 3), "a"))
    assert first_model.unfit_names(whole, 7) is None
    named = run_record.named(list(whole), np.arange(7), {"count": np.array(3)})
    assert named["b"] == 6 and named["tied"].tolist() == [[0, 1, 2], [3, 4, 5]] and named["count"] == 3
    for leaves, size in (
        (whole, 8),
        ((Leaf("a", (3,)), Leaf("a", (3,))), 6),
        ((Leaf("", (3,)),), 3),
        ((Leaf("x" * 301, (3,)),), 3),
        ((Leaf("a", (3,)), Leaf("b", (3,), "c")), 3),
        ((Leaf("a", (-1,)), Leaf("b", (-1,))), -2),
    ):
        assert first_model.unfit_names(leaves, size)
    hello = messages.Hello("0", 5, np.zeros(7, np.float32), {}, True, whole)
    back = messages.unpack_hello(messages.pack_hello(hello))
    assert back.tensors == whole and back.own_optimizer


def test_an_exported_state_dict_loads_into_the_users_module(tmp_path: Path) -> None:
    """Tied weights under both names, batch norm's buffers, bfloat16; what is frozen is not in it."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    from safetensors.torch import load_file as load_torch

    from amsfl.flower import torch_client

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)
            self.body, self.again = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
            self.again.weight = self.body.weight
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.head(self.again(self.body(self.norm(x))))

    rows = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.arange(16) % 2)
    app = torch_client(Net, lambda context: torch.utils.data.DataLoader(rows, batch_size=8))
    state, _ = serve(InProcessGrid(app, NODES), {**SETTINGS, "rounds": 2, "out": str(tmp_path / "run")})
    module, half = Net(), Net().to(torch.bfloat16)
    tensors = load_torch(tmp_path / "run" / "model.safetensors")
    module.load_state_dict(tensors, strict=True)
    half.load_state_dict(tensors)
    flat = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    np.testing.assert_array_equal(flat, state.anchor)
    assert module.again.weight is module.body.weight and int(module.norm.num_batches_tracked) == 2
