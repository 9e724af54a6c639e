"""Calibrated by a record whose truth is known, a forecast says what the truth says."""

from pathlib import Path
from typing import Any

import pytest

import amsfl
from amsfl.study.calibrate import as_csv, calibrate
from amsfl.study.forecast import ForecastGrid, forecast

SITES = "client,step_seconds,latency,jitter\nnorth,0.01,0.1,{0}\nsouth,0.1,0.4,{0}\neast,0.02,0.2,{0}\n"
RUN: dict[str, Any] = {"data": "digits", "model": "softmax", "engine": "loop", "batch": 16, "clients": 3}


@pytest.mark.parametrize(
    "jitter, rounds, near, trials",
    [(0.0, 6, 0.001, 1), pytest.param(0.3, 80, 0.15, 12, marks=pytest.mark.slow)],
)
def test_calibrate_then_forecast(
    jitter: float, rounds: int, near: float, trials: int, tmp_path: Path
) -> None:
    """The same order of ways, and seconds as near as 80 rounds of jitter can tell the slowest."""
    (tmp_path / "truth.csv").write_text(SITES.format(jitter))
    truth = str(tmp_path / "truth.csv")
    settings = RUN | {"profile": truth, "clock": "makespan", "method": "fedavg", "rounds": rounds}
    amsfl.run(out=tmp_path / "run", eval_every=rounds, details="", steps=5, **settings)
    (tmp_path / "fitted.csv").write_text(as_csv(calibrate([tmp_path / "run"])))
    grid = ForecastGrid(("fedavg",), ("all", "quorum:2"), (2, 10), (0.5,), trials)
    ways = {}
    for name in ("truth", "fitted"):
        profile = str(tmp_path / f"{name}.csv")
        asked = RUN | {"profile": profile, "target": 0.8, "rounds": 40}
        outcome = forecast(asked, tmp_path / name, grid, lambda *_: None)
        ways[name] = {(row.round_end, row.steps): row.middle for row in outcome.rows}
    assert next(iter(ways["fitted"])) == next(iter(ways["truth"])), "the same first choice"
    for way, seconds in ways["truth"].items():
        assert ways["fitted"][way] == pytest.approx(seconds, rel=near), way
