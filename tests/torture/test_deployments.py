"""The folder of a real federation: flipped bits never change how it ends, and kills leave it whole."""

import gc
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from torture import crash_at, flips, operations

from amsfl import record
from amsfl.core import DiskError, UserError
from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid

SETTINGS: dict[str, Any] = {"method": "amsfl", "rounds": 4, "clients": 2, "lr": 0.1, "poll": 0.001}
NODES = [{"partition-id": place} for place in range(2)]


def gradient(x: Any, *_: Any) -> tuple[float, Any]:
    return float(((x - 1) ** 2).sum()), 2 * (x - 1)


CLIENT = numpy_client(lambda context: NumpyTrainer(9, np.zeros(3, np.float32), gradient))


def go(where: Path, **changes: Any) -> Any:
    settings = {**SETTINGS, "out": str(where), **changes}
    return serve(InProcessGrid(CLIENT, NODES), settings)[0]


def test_flipped_bits(tmp_path: Path, torture: bool) -> None:
    go(tmp_path / "half", rounds=2)
    known, ended, count = (
        record.read_run(tmp_path / "half"),
        {"read": 0, "sentence": 0},
        300 if torture else 10,
    )
    for flipped in flips(tmp_path / "half", count, seed=6):
        try:
            assert not record.verify(tmp_path / "half").good, flipped
        except DiskError as said:
            assert str(said).endswith("."), flipped
        try:
            assert record.read_run(tmp_path / "half") == known, flipped
            ended["read"] += 1
        except DiskError:
            ended["sentence"] += 1
        where = shutil.copytree(tmp_path / "half", tmp_path / "on")
        try:
            state = go(where, resume=True)
            assert state.round == 4 and np.isfinite(state.anchor).all(), flipped
        except UserError as said:
            assert "\n" not in str(said), flipped
        shutil.rmtree(where)
    assert ended["sentence"]
    print(f"{count} flipped bits in a deployment's folder: {ended}")


@pytest.mark.torture
def test_crashes(tmp_path: Path) -> None:
    count = len(operations(lambda: go(tmp_path / "counted")))
    where = tmp_path / "run"
    for number in range(count):
        crash_at(number, lambda: go(where))
        gc.collect()  # a dead process keeps no locks
        if (where / "record.json").exists():
            record.read_run(where)
            state = go(where, resume=True)
        else:
            state = go(where)
        assert state.round == 4 and record.verify(where).good, f"operation {number}"
        shutil.rmtree(where)
    print(f"{count} operations of a deployment as crash points")
