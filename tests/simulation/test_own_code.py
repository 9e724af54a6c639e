"""Mistakes in a user's own code: a sentence that names it, before or instead of a traceback."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from command_line import CliRunner

import amsfl
from amsfl.cli.app import app
from amsfl.core import Combine, Combined, names
from amsfl.engines.models import Model

SMALL = {"data": "digits", "rounds": 1, "progress": False, "engine": "loop", "method": "fedavg"}
MINE = """
from amsfl.core import Combine
from amsfl.methods import Facts, Method

class short(Method):
    facts = Facts("short")
    def correct(self, grad, x, anchor):
        return grad

class wrong(Method):
    facts = Facts("wrong")
    def aggregate(self, anchor, total, weights, steps, server):
        return anchor + total.nothing, server

def one():
    return Combine("one", lambda uploads, weights, steps, history: uploads)

class good(Method):
    facts = Facts("good")
"""


WORLD = """
import jax.numpy as jnp
import numpy as np
from amsfl.data import Dataset
from amsfl.engines.models import Model

def rows():
    y = np.arange(60, dtype=np.int32) % 2
    x = np.stack([2.0 * y - 1, np.ones(60)], 1).astype(np.float32)
    return Dataset("mine", x, y, {"holdout": (x[:20], y[:20])}, ("no", "yes"), ("a", "b"))

linear = Model("linear", lambda key: {"w": jnp.zeros((2, 2))}, lambda params, x: x @ params["w"])
"""


def linear(numbers: tuple[int, ...], inputs: int = 64) -> Model:
    return Model("linear", lambda key: {"w": jnp.zeros((inputs, *numbers))}, lambda p, x: x @ p["w"])


@pytest.mark.parametrize(
    "network",
    [linear((2,)), linear((12,)), linear(()), linear((10,), inputs=63)],
    ids=["too few", "too many", "none", "other rows"],
)
def test_a_network_that_does_not_fit_is_refused_before_the_first_round(
    network: Model, tmp_path: Path
) -> None:
    with pytest.raises(amsfl.UserError, match="network 'linear'"):
        amsfl.run(network=network, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()
    assert amsfl.run(network=linear((10,)), **SMALL).summary.rounds == 1


def test_a_network_of_numbers_gives_one() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 60))
    table = {"a": a, "b": b, "label": a + b}
    own = {key: value for key, value in SMALL.items() if key != "data"}
    with pytest.raises(amsfl.UserError, match=r"one number is predicted.*\(2, 1\)"):
        amsfl.run(dataset=table, network=linear((), inputs=2), **own)
    assert amsfl.run(dataset=table, network=linear((1,), inputs=2), **own).summary.rounds == 1


@pytest.mark.parametrize("engine", ["loop", pytest.param("jax", marks=pytest.mark.slow)])
def test_a_rule_gives_a_weight_for_each_row(engine: str) -> None:
    rule = Combine("few", lambda uploads, weights, steps, history: Combined(uploads, weights[:1]))
    with pytest.raises(amsfl.UserError, match=r"'few'.*5 rows and 1 weights"):
        amsfl.run(robust=rule, clients=5, **SMALL | {"engine": engine})


@pytest.mark.parametrize("weight", [lambda age: -1.0, lambda age: 0.5, lambda age: 1.0 - 2 * age], ids="abc")
def test_new_work_counts_once_and_old_work_is_not_subtracted(weight: Callable[[int], float]) -> None:
    end = amsfl.RoundEnd("mine", lambda arrived, *_: arrived >= 2, weight=weight)
    with pytest.raises(amsfl.UserError, match=r"'mine'.*1 for age 0"):
        amsfl.run(round_end=end, clock="makespan", **SMALL)


def test_a_policy_gives_a_plan() -> None:
    with pytest.raises(amsfl.UserError, match="'mine' gave a list"):
        amsfl.run(policy=amsfl.Policy("mine", lambda problem, signals: [1] * 5), **SMALL)


@pytest.mark.parametrize(
    "words, said",
    [
        (("--method", "my_parts:short"), "'my_parts:short'"),
        (("--method", "my_parts:wrong"), "my_parts.py, line 13"),
        (("--method", "fedavg", "--robust", "my_parts:one"), "'my_parts:one'"),
    ],
)
def test_on_the_command_line_own_code_is_named(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_own_files", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_parts.py").write_text(MINE)
    monkeypatch.delitem(__import__("sys").modules, "my_parts", raising=False)
    call = ("run", "--data", "digits", "--rounds", "1", "--engine", "loop", "--out", "run", *words)
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 2, result.output
    assert said in result.stderr and "Traceback" not in result.stderr


def test_our_own_mistakes_are_not_blamed_on_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_own_files", {})
    assert names.blame(TypeError("ours")) == ""


def test_a_model_and_data_of_ones_own_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's data set, by its function, and its model, an object; a record does not choose them."""
    monkeypatch.setattr(names, "_own_files", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_world.py").write_text(WORLD)
    monkeypatch.delitem(__import__("sys").modules, "my_world", raising=False)
    given = SMALL | {"data": "my_world:rows", "model": "my_world:linear"}
    run = amsfl.run(**given, out=tmp_path / "run")
    assert run.params.shape == (4,) and set(run.parts.data.classes) == {"no", "yes"}
    with pytest.raises(amsfl.UserError, match=r"data 'my_world:rows'.*must not choose"):
        amsfl.resume(tmp_path / "run", rounds=2)
    with pytest.raises(amsfl.UserError, match="no attribute 'liner'"):
        amsfl.run(**given | {"model": "my_world:liner"})
