"""Rounds in one call, as a GPU has them, against the same rounds one by one."""

from typing import Any

import numpy as np
import pytest

import amsfl
from amsfl.engines import jax_engine
from amsfl.engines.contract import MOST

SETTINGS: dict[str, Any] = {"data": "digits", "model": "softmax", "engine": "jax"}
SETTINGS |= {"rounds": 7, "steps": 3, "eval_every": 5}


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A GPU's way on the CPU; how many rounds each call had."""
    begin, several, calls = jax_engine.JaxEngine.__init__, jax_engine.JaxEngine.several, []

    def made(engine: Any, *arguments: Any, **more: Any) -> None:
        begin(engine, *arguments, **more)
        engine.ahead, engine.lanes = engine.several, 12

    def counted(engine: Any, asked: Any) -> Any:
        calls.extend(len(each.client) for each in asked)
        return several(engine, asked)

    monkeypatch.setattr(jax_engine.JaxEngine, "__init__", made)
    monkeypatch.setattr(jax_engine.JaxEngine, "several", counted)
    return calls


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "fedavgm", "lr_decay": 0.9, "policy": "speed"},
        {"method": "scaffold", "cohort": 3},
        {"method": "fednova", "transmit": "topk:0.3"},
        {"method": "feddyn", "seconds": 1.0, "rounds": 50},
        {"method": "fedprox", "seconds": 2.5, "details": "models"},
    ],
)
def test_the_same_rounds_in_one_call(
    changes: dict[str, Any], ahead: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [SETTINGS | changes | {"seed": seed} for seed in (1, 2, 3)]
    found = amsfl.run_batch(trials)
    assert max(ahead) > 1
    monkeypatch.undo()
    for one, other in zip(found, amsfl.run_batch(trials), strict=True):
        np.testing.assert_allclose(one.params, other.params, atol=1e-5)
        assert len(one.rounds) == len(other.rounds)
        for mine, own in zip(one.rounds, other.rounds, strict=True):
            assert mine.metrics.keys() == own.metrics.keys()
            bare = {"wall": {}, "metrics": {}, "predicted_seconds": 0.0}
            assert mine._replace(**bare) == own._replace(**bare)
        assert one.summary.virtual_seconds == other.summary.virtual_seconds
        assert one.summary.steps == other.summary.steps
        assert one.summary.local_accuracy == other.summary.local_accuracy


def test_bits_do_not_depend_on_where_calls_end(ahead: list[int], tmp_path: Any) -> None:
    settings = SETTINGS | {"method": "scaffold", "progress": False}
    whole = amsfl.run(**settings, out=tmp_path / "whole")
    amsfl.run(**settings | {"rounds": 3}, out=tmp_path / "parts")
    parts = amsfl.resume(tmp_path / "parts", rounds=7, progress=False)
    assert ahead == [5, 2, 3, 2, 2]
    assert (whole.params == parts.params).all()
    assert [each.round for each in parts.rounds] == [*range(1, 8)]


def test_calls_have_a_usual_length(ahead: list[int]) -> None:
    amsfl.run_batch([SETTINGS | {"method": "fedavg", "rounds": MOST + 6, "steps": 1, "eval_every": 1000}])
    assert ahead == [MOST, 6]


def test_what_looks_at_each_round_goes_one_by_one(ahead: list[int]) -> None:
    for changes in (
        {"method": "amsfl"},
        {"robust": "median"},
        {"round_end": "quorum:3", "clock": "makespan"},
        {"details": "models", "stop_after": 1},
    ):
        amsfl.run_batch([SETTINGS | {"method": "fedavg" if changes else "amsfl", "rounds": 2} | changes])
    assert not ahead
