"""Runs by settings: server_app, what a run leaves, when it stops, and mistakes in a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import ArrayRecord, Context, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedMedian
from safetensors.numpy import load_file

from amsfl import portable
from amsfl.core import UserError
from amsfl.flower import GradientTrainer, InProcessGrid, client_app, merged, serve, server_app
from amsfl.flower.serving import first_arrays, made
from amsfl.record import read_run
from amsfl.settings.parse import serve_config

SETTINGS: dict[str, Any] = {"method": "fedavg", "rounds": 6, "clients": 2, "steps": 1, "lr": 0.5}
NODES = [{"partition-id": place} for place in range(2)]


class ToOne(GradientTrainer):
    rows = 9

    def gradient(self, x: Any, step: int) -> Any:
        return 1.0, x - 1


CLIENT = client_app(lambda context: ToOne())
SCORES = [0.0, 0.2, 0.6, 0.5, 0.6, 0.4, 0.1]
START = np.zeros(3, np.float32)


def scored(values: Any = SCORES, name: str = "accuracy") -> Any:
    """A function that gives round i's score."""
    return lambda number, arrays: MetricRecord({name: values[number], "loss": 1.0})


def run(settings: dict[str, Any], evaluate: Any = None, **more: Any) -> list[Any]:
    rounds: list[Any] = []
    more |= {"evaluate": evaluate, "watch": rounds.append}
    serve(InProcessGrid(CLIENT, NODES), SETTINGS | settings, START, **more)
    return rounds


def test_the_best_round_is_kept_and_exported(tmp_path: Path) -> None:
    run({"out": str(tmp_path / "run")}, scored())
    summary = read_run(tmp_path / "run").summary
    first = {"round": 2, "score": 0.6, "by": "accuracy"}  # of two alike
    assert summary is not None and summary.best == first
    files = (load_file(tmp_path / "run" / f"model{name}.safetensors") for name in ("-best", ""))
    best, last = (file["parameters"] for file in files)
    assert best == pytest.approx(np.full(3, 0.75)) and last == pytest.approx(np.full(3, 1 - 0.5**6))
    assert portable.load(tmp_path / "run", "last").tensors["parameters"] == pytest.approx(last)
    assert "the best round was 2" in (tmp_path / "run" / "MODEL.md").read_text()
    assert summary.steps == {"1000": 6, "1001": 6} and summary.status == "finished"


def test_it_stops_for_want_of_a_better_one_and_goes_on_where_it_was(tmp_path: Path) -> None:
    out = {"out": str(tmp_path / "run"), "stop_after": 2}
    assert len(run(out, scored())) == 4
    assert len(run(out | {"resume": True, "rounds": 9}, scored([0.0] * 5 + [0.7] + [0.1] * 4))) == 3
    assert read_run(tmp_path / "run").summary.best["round"] == 5  # type: ignore[union-attr]


@pytest.mark.parametrize("score, want", [({}, 2), ({"accuracy": 0.5}, 1)])
def test_what_the_best_is_judged_by(score: dict[str, float], want: int, tmp_path: Path) -> None:
    """By the loss where there is no score; of equal rounds the first."""
    loss = [0, 3.0, 2.0, 2.5, 9.0]

    def evaluate(number: int, arrays: Any) -> MetricRecord:
        return MetricRecord({"loss": loss[number]} | score)

    run({"rounds": 4, "out": str(tmp_path / "run")}, evaluate)
    assert read_run(tmp_path / "run").summary.best["round"] == want  # type: ignore[union-attr]


def test_a_target_ends_a_run_and_is_on_record(tmp_path: Path) -> None:
    rounds = run({"target": 0.55, "rounds": None, "out": str(tmp_path / "run")}, scored())
    summary = read_run(tmp_path / "run").summary
    assert len(rounds) == 2 and summary is not None and summary.rounds_to_target == 2
    assert len(run({"target": 0.55, "stop_at_target": False}, scored())) == 6


def test_a_resumed_run_may_be_longer_and_is_otherwise_the_one_that_began(tmp_path: Path) -> None:
    out = {"out": str(tmp_path / "run")}
    run(out | {"rounds": 2, "lr": 0.25})
    settings = {"resume": True, "rounds": 4, **out}
    rounds: list[Any] = []
    serve(InProcessGrid(CLIENT, NODES), settings, START, watch=rounds.append)
    assert [each.round for each in rounds] == [3, 4] and rounds[0].lr == 0.25
    with pytest.raises(UserError, match="lr"):
        serve(InProcessGrid(CLIENT, NODES), settings | {"lr": 0.5}, START)
    with pytest.raises(UserError, match="out=FOLDER"):
        serve(InProcessGrid(CLIENT, NODES), {"resume": True}, START)


def test_a_strategy_of_flower_s_in_place_of_a_method() -> None:
    assert len(run({"method": "amsfl"}, strategy=FedMedian())) == 6


def test_a_round_is_a_line_unless_somebody_watches(capsys: Any) -> None:
    run({"rounds": 1}, scored())
    assert not capsys.readouterr().out
    serve(InProcessGrid(CLIENT, NODES), SETTINGS | {"rounds": 1}, START, evaluate=scored())
    line = capsys.readouterr().out
    assert line.startswith("round 1  accuracy 0.2000") and "steps 1 1" in line


MISTAKES = {
    "of simulations": ({"engine": "loop"}, "engine"),
    "of simulations, too": ({"extrapolation": 4.0}, "extrapolation"),
    "unknown": ({"roundz": 3}, "roundz"),
    "another method": ({"method": "fedcsda"}, "real clients"),
    "an option of another": ({"options": {"mu": 1.0}}, "mu"),
    "an option of none": ({"method": "amsfl", "options": {"mu": 1.0}}, "mu"),
    "whole clients": ({"privacy": "client", "epsilon": 2.0}, "DifferentialPrivacyServerSide"),
    "groups": ({"round_end": "groups"}, "simulations only"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_settings_that_mean_nothing_here_are_sentences(mistake: str) -> None:
    settings, word = MISTAKES[mistake]
    with pytest.raises(UserError, match=word):
        run(settings)


def test_parts_of_amsfl_are_options_and_under_privacy_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is no motion. That clients do not score is no warning of Flower's."""
    monkeypatch.setattr("flwr.serverapp.strategy.fedavg.log", lambda *words: pytest.fail(words[1]))
    for own, want in (({"options": {"momentum": 0.5}}, (0.5, 0.5, True)), ({"epsilon": 2.0}, (0, 0, False))):
        planner = made(serve_config({"method": "amsfl", "clients": 2, **own}))
        assert (planner.momentum, planner.balance, bool(planner.judging)) == want
        assert planner.strategy.fraction_evaluate == planner.strategy.min_evaluate_nodes == 0


def test_a_run_config_goes_over_the_app_s_own_settings() -> None:
    own = {"rounds": 7, "held-back": 0.2, "options.mu": 0.5, "own": 1, "target": ""}
    found = merged({"rounds": 5, "lr": 0.1}, own)
    assert found == {"rounds": 7, "lr": 0.1, "held_back": 0.2, "options": {"mu": 0.5}}
    app = server_app(start=START, **SETTINGS)
    grid, config = InProcessGrid(CLIENT, NODES), {"rounds": 1}
    app(grid=grid, context=Context(1, 1, {}, RecordDict(), config))
    assert grid.answered == 2


def test_first_models_in_any_form() -> None:
    for start in (START, lambda: START, ArrayRecord()):
        assert isinstance(first_arrays(start), ArrayRecord)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    for start in (torch.nn.Linear(2, 3), lambda: torch.nn.Linear(2, 3)):
        assert {*first_arrays(start)} == {"weight", "bias"}
