"""Sizes far beyond what anybody starts with: they end, are right, and a report of them is made."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import amsfl
from amsfl.cli.app import app
from amsfl.data import Dataset

pytestmark = pytest.mark.torture


def made_up(rows: int, features: int, classes: int) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.arange(rows + 1000, dtype=np.int32) % classes
    x = rng.standard_normal((rows + 1000, features), np.float32)
    x[:, 0] += y * 4 / classes
    names = tuple(map(str, range(classes)))
    held = {"holdout": (x[rows:], y[rows:])}
    return Dataset("large", x[:rows], y[:rows], held, names, tuple(f"f{n}" for n in range(features)))


SIZES: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "100,000 clients": ((200_000, 8, 4), {"clients": 100_000, "cohort": 50, "partition": "iid"}),
    "5,000 classes": ((20_000, 8, 5_000), {"clients": 5}),
    "20,000 features": ((4_000, 20_000, 3), {"clients": 5}),
    "2,000,000 rows": ((2_000_000, 30, 4), {"clients": 10}),
    "10,000 rounds": (
        (2_000, 4, 2),
        {"clients": 3, "rounds": 10_000, "engine": "loop", "method": "fedavg", "eval_every": 5}
        | {"steps": 1, "checkpoint_every": 500, "details": False},
    ),
}


@pytest.mark.parametrize("size", SIZES)
def test_it_ends_and_is_reported(size: str, tmp_path: Path) -> None:
    shape, settings = SIZES[size]
    began = time.process_time()
    common = {"method": "amsfl", "model": "softmax", "rounds": 3, "steps": 2, "out": tmp_path / "run"}
    result = amsfl.run(dataset=made_up(*shape), **common | settings)
    ran = time.process_time()
    assert np.isfinite(result.params).all() and result.summary.rounds == settings.get("rounds", 3)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    reported = time.process_time()
    page = (tmp_path / "report" / "report.html").stat().st_size
    assert page < 20_000_000
    print(f"{size}: run {ran - began:.0f} s, report {reported - ran:.0f} s of {page / 1e6:.1f} MB")
