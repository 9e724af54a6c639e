"""What to deploy: every way is tried, the soonest first; a record's truth is what it says."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import succeed

import amsfl
from amsfl.cli.sites import advice
from amsfl.core import UserError
from amsfl.study import forecast as study_forecast
from amsfl.study import sweep
from amsfl.study.calibrate import as_csv, calibrate
from amsfl.study.forecast import ForecastRow, forecast

SITES = "client,step_seconds,latency\nnorth,0.01,0.1\nsouth,0.1,0.2\neast,0.02,0.1\n"
SMALL: dict[str, Any] = {"data": "digits", "model": "softmax", "engine": "loop", "rounds": 40, "batch": 16}


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    (tmp_path / "sites.csv").write_text(SITES)
    return tmp_path / "sites.csv"


def tried(sites: Path, out: Path, heard: list[str], **changes: Any) -> Any:
    settings = SMALL | {"profile": str(sites), "target": 0.6} | changes
    return forecast(settings, out, ("fedavg", "scaffold"), 2, lambda name, *_: heard.append(name))


def test_a_forecast_is_what_runs_take_and_goes_on_where_it_was(
    sites: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_forecast, "STEPS", (2, 4))
    monkeypatch.setattr(study_forecast, "RATES", (0.1, 0.5))
    heard: list[str] = []
    rows, left_out = tried(sites, tmp_path / "units", heard)
    assert heard == ["fedavg, all", "fedavg, quorum:2", "fedavg, buffer:1", "scaffold, all"]
    assert len(left_out) == 2 and "SCAFFOLD with quorum:2" in left_out[0]
    middles = [row.middle for row in rows]
    assert middles == sorted(middles) and len(rows) == 8  # of two rates the better one
    best = rows[0]
    again = [
        amsfl.run(
            **SMALL, profile=str(sites), target=0.6, method=best.method, steps=best.steps, lr=best.lr,
            round_end=best.round_end, clock="makespan", clients=3, seed=seed, details="",
        ).summary.seconds_to_target
        for seed in range(2)
    ]  # fmt: skip
    assert best.seconds == again
    first, *_ = files = sorted((tmp_path / "units").iterdir())
    assert len(files) == 4  # a batch each
    first.write_bytes(first.read_bytes()[:-20])  # as a full disk may leave it
    batches, run_batch = [], sweep.run_batch
    monkeypatch.setattr(sweep, "run_batch", lambda *all_: batches.append(1) or run_batch(*all_))
    assert tried(sites, tmp_path / "units", heard)[0] == rows and len(batches) == 1
    with pytest.raises(UserError, match="A forecast is of the time to a target"):
        tried(sites, tmp_path / "units", heard, target=None)


def test_steps_that_are_planned_are_not_asked_for(sites: Path, tmp_path: Path) -> None:
    """No remark speaks of a setting that nobody gave."""
    settings = SMALL | {"profile": str(sites), "target": 0.6, "rounds": 2, "round_end": "all"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,), _ = forecast(settings, tmp_path, ("amsfl",), 1)
    assert row.steps is None


def test_who_never_gets_there_comes_last() -> None:
    rows = [
        ForecastRow("a", "A", "all", 1, 0.1, seconds, [1, 1, 1]) for seconds in ([1.0, 4.0], [1.0, None, 9.0])
    ]
    assert rows[0].middle == pytest.approx(2.0) and rows[1].middle == 9.0 and rows[1].reached == 2
    assert np.isinf(ForecastRow("a", "A", "all", 1, 0.1, [None], [None]).middle)


@pytest.mark.parametrize(("later", "sure"), [([1.1, 1.3, 2.0], False), ([90.0, 91.0, 92.0], True)])
def test_a_winner_by_chance_is_not_called_the_soonest(later: list[float], sure: bool) -> None:
    rows = [ForecastRow("a", "A", "all", 1, 0.1, seconds, [1] * 3) for seconds in ([1.0, 1.2, 1.4], [*later])]
    said = advice(rows, "accuracy 0.9")
    assert ("would reach accuracy 0.9 soonest" in said) == sure == ("not surely sooner" not in said)


def test_the_command_says_it_in_words(sites: Path, tmp_path: Path) -> None:
    out = tmp_path / "forecast"
    fixed = "--data digits --model softmax --target 0.6 --trials 2 --methods fedavg --round-end all --steps 4"
    done = succeed("forecast", sites, *fixed.split(), "--lr", "0.5", "--out", out)
    assert "FedAvg, waiting for all, 4 steps would reach accuracy 0.6 soonest: in" in done.output
    assert (out / "forecast.csv").read_text().startswith("method,rounds end,steps,lr,seconds")


JITTERY = "client,step_seconds,latency,jitter\nnorth,0.01,0.1,{0}\nsouth,0.1,0.4,{0}\neast,0.02,0.2,{0}\n"
FITTED: dict[str, Any] = {"data": "digits", "model": "softmax", "engine": "loop", "batch": 16, "clients": 3}


@pytest.mark.parametrize(
    "jitter, rounds, near, trials",
    [(0.0, 6, 0.001, 1), pytest.param(0.3, 80, 0.15, 12, marks=pytest.mark.slow)],
)
def test_calibrate_then_forecast(
    jitter: float, rounds: int, near: float, trials: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same order of ways, and seconds as near as 80 rounds of jitter can tell the slowest."""
    (tmp_path / "truth.csv").write_text(JITTERY.format(jitter))
    truth = str(tmp_path / "truth.csv")
    monkeypatch.setattr(study_forecast, "STEPS", (2, 10))
    settings = FITTED | {"profile": truth, "clock": "makespan", "method": "fedavg", "rounds": rounds}
    amsfl.run(out=tmp_path / "run", eval_every=rounds, details="", steps=5, **settings)
    (tmp_path / "fitted.csv").write_text(as_csv(calibrate([tmp_path / "run"])[0]))
    ways = {}
    for name in ("truth", "fitted"):
        profile = str(tmp_path / f"{name}.csv")
        asked = FITTED | {"profile": profile, "target": 0.8, "rounds": 40, "lr": 0.5}
        rows, _ = forecast(asked, tmp_path / name, ("fedavg",), trials)
        ways[name] = {(row.round_end, row.steps): row.middle for row in rows}
    assert next(iter(ways["fitted"])) == next(iter(ways["truth"])), "the same first choice"
    for way, seconds in ways["truth"].items():
        assert ways["fitted"][way] == pytest.approx(seconds, rel=near), way
