"""Files that hold rows are read by their owner alone; commands say what is missing."""

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.client import torch_rows
from amsfl.flower.deploy.builtin_app import deal
from amsfl.flower.deploy.recipe import DeploySettings
from amsfl.flower.deploy.run import PreparedApp, _own
from amsfl.flower.in_process import InProcessGrid
from amsfl.simulation import serve_config

ROOT = Path(__file__).parents[2]
QUICK: dict[str, Any] = {"rounds": 1, "steps": 1, "poll": 0.01, "patience": 5.0}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_dealt_shards_are_their_owner_s(tmp_path: Path) -> None:
    config = serve_config({"data": "digits", "clients": 2})
    for _ in range(2):  # again over files that are there
        for path in deal(config, tmp_path / "shards"):
            assert mode(path) == 0o600
            path.chmod(0o644)
    assert mode(tmp_path / "shards") == 0o700 and mode(tmp_path / "shards" / "server.npz") == 0o600


def test_a_client_s_state_is_its_owner_s(tmp_path: Path) -> None:
    start = np.zeros(2, np.float32)
    app = numpy_client(lambda context: NumpyTrainer(4, start, lambda x, step, order: (1.0, x)))
    nodes = [{"partition-id": place, "state-dir": str(tmp_path / "state")} for place in range(2)]
    serve(InProcessGrid(app, nodes), {**QUICK, "method": "scaffold", "clients": 2, "lr": 0.1})
    held = list((tmp_path / "state").iterdir())
    assert sum(path.suffix == ".safetensors" for path in held) == 2 and mode(tmp_path / "state") == 0o700
    assert {mode(path) for path in held} == {0o600}


def test_nodes_know_how_many_partitions_there_are(tmp_path: Path) -> None:
    settings = DeploySettings(
        {"clients": 2, "rounds": 1}, [], 0.0, False, app=str(ROOT / "examples" / "flower-nslkdd")
    )
    made: PreparedApp = _own(settings, tmp_path / "home", tmp_path / "out")
    assert [(node["partition-id"], node["num-partitions"]) for node in made.nodes] == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    "words", [["deploy", "--clients", "2"], ["supernode", "--insecure"], ["supernode", "--check"]]
)
def test_a_command_says_which_extra_it_needs(words: list[str]) -> None:
    code = "import sys; sys.modules['flwr'] = None; from amsfl.cli.app import app; app()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    if "--check" in words:  # versions are what it looks at
        assert "Flower" in done.stdout and "Traceback" not in done.stderr
        return
    assert done.returncode == 2 and "pip install 'amsfl[flower]'" in done.stderr
    assert "Traceback" not in done.stderr


class Outputs:
    loss = 3.0


@pytest.mark.parametrize("outputs", [{"loss": 3.0}, Outputs()])
def test_a_module_may_return_its_loss_as_an_entry_or_as_an_attribute(outputs: Any) -> None:
    assert torch_rows.own_loss(lambda **batch: outputs, {"labels": [1]}) == 3.0


@pytest.mark.parametrize(
    ("outputs", "batch", "word"),
    [({"logits": 1}, {"labels": [1]}, "without a loss"), ({}, {"labels": [1], "t": ["a"]}, "labels, t")],
)
def test_what_cannot_be_trained_on_is_said(outputs: Any, batch: Any, word: str) -> None:
    with pytest.raises(UserError, match=word):
        torch_rows.own_loss(lambda labels: outputs, batch)


def test_a_mistake_of_every_client_is_known_before_the_first_round() -> None:
    """A dictionary where the loss takes a tensor: the run ends while clients are asked who they are."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    from amsfl.flower import torch_client

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return {"logits": self.layer(x)}

    rows = torch.utils.data.TensorDataset(torch.ones(8, 2), torch.ones(8, dtype=torch.long))
    app = torch_client(Net, lambda context: torch.utils.data.DataLoader(rows, batch_size=4))
    grid = InProcessGrid(app, [{"partition-id": place} for place in range(2)])
    with pytest.raises(UserError, match="batch_loss"):
        serve(grid, {**QUICK, "method": "fedavg", "clients": 2, "patience": 60.0})
