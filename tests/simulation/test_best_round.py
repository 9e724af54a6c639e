"""The best round and early stopping in simulations, by the settings that real federations have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amsfl
from amsfl.core.scores import score, worth
from amsfl.settings.definitions import RunConfig
from amsfl.simulation.api import with_patience

SETTINGS: dict[str, Any] = {"data": "digits", "model": "softmax", "clients": 2, "engine": "loop", "steps": 1}
SETTINGS |= {"method": "fedavg", "lr": 3.0, "batch": 8, "rounds": 12, "details": ""}  # it jumps about


def first_best(values: list[float], patience: int) -> tuple[int, int]:
    """By hand: when a run with so much patience ends, and which round is its best so far."""
    for end in range(1, len(values) + 1):
        best = int(np.argmax(values[:end])) + 1
        if end - best >= patience:
            return end, best
    return len(values), int(np.argmax(values)) + 1


def test_a_simulation_stops_for_want_of_a_better_round(tmp_path: Path) -> None:
    whole = amsfl.run(**SETTINGS)
    values = [each.metrics["holdout"]["accuracy"] for each in whole.rounds]
    assert whole.summary.best["round"] == int(np.argmax(values)) + 1
    assert whole.summary.best["score"] == pytest.approx(max(values))
    end, best = first_best(values, 2)
    assert end < 12  # else this shows nothing
    short = amsfl.run(**SETTINGS, stop_after=2, out=tmp_path / "run")
    assert (short.summary.rounds, short.summary.status) == (end, "finished")
    assert short.summary.best["round"] == best
    on = amsfl.resume(tmp_path / "run", stop_after=0, rounds=12)
    assert on.summary.rounds == 12 and on.summary.best == whole.summary.best
    np.testing.assert_array_equal(on.best_params, whole.best_params)


@pytest.mark.parametrize(
    "given, patience",
    [
        ({}, 25),  # of 50 rounds
        ({"rounds": 20}, 0),
        ({"rounds": 150}, 75),
        ({"rounds": 900}, 100),
        ({"seconds": 60.0}, 100),
        ({"stop_after": 3}, 3),
        ({"noise": 1.0, "epsilon": 5.0}, 0),  # where its end tells of rows, a private run could claim less
    ],
)
def test_a_run_on_a_table_waits_for_half_of_its_rounds(given: dict[str, Any], patience: int) -> None:
    assert with_patience(RunConfig(data="rows.csv", **given), given).stop_after == patience
    assert with_patience(RunConfig(data="digits", **given), given).stop_after == given.get("stop_after", 0)


def test_what_rounds_are_compared_by() -> None:
    recall = score("recall:b", ("a", "b"))
    assert worth({"recall": [0.1, 0.7]}, recall) == 0.7
    assert worth({"recall": [0.1, None]}, recall) is None
    assert worth({"recall": [0.1, 0.7], "loss": 2.0}, recall, by_loss=True) == -2.0
