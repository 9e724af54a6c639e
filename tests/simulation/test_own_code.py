"""Mistakes in a user's own code and ordinary ones in Python: a sentence, and numpy's warnings stay away."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from command_line import invoke

import amsfl
from amsfl.core import Combine, Combined, Remark, UserError, names
from amsfl.data import describe, load
from amsfl.engines.models import Model
from amsfl.planning import as_plan
from amsfl.record import read_run

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


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a user works, with two files of their own."""
    monkeypatch.setattr(names, "_own_files", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in (("my_parts", MINE), ("my_world", WORLD)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


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
def test_on_the_command_line_own_code_is_named(words: tuple[str, ...], said: str, mine: Path) -> None:
    call = ("run", "--data", "digits", "--rounds", "1", "--engine", "loop", "--out", "run", *words)
    result = invoke(*call)
    assert result.exit_code == 2, result.output
    assert said in result.stderr and "Traceback" not in result.stderr


def test_our_own_mistakes_are_not_blamed_on_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_own_files", {})
    assert names.blame(TypeError("ours")) == ""


def test_a_model_and_data_of_ones_own_are_named(mine: Path) -> None:
    """A file's data set, by its function, and its model, an object; a record does not choose them."""
    given = SMALL | {"data": "my_world:rows", "model": "my_world:linear"}
    run = amsfl.run(**given, out=mine / "run")
    assert run.params.shape == (4,) and set(run.parts.data.classes) == {"no", "yes"}
    with pytest.raises(amsfl.UserError, match=r"data 'my_world:rows'.*must not choose"):
        amsfl.resume(mine / "run", rounds=2)
    with pytest.raises(amsfl.UserError, match="no attribute 'liner'"):
        amsfl.run(**given | {"model": "my_world:liner"})


ONE_ROUND = {"rounds": 1, "progress": False, "engine": "loop", "model": "softmax", "method": "fedavg"}


def test_compression_of_buffered_rounds_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        late = ONE_ROUND | {"rounds": 2, "round_end": "buffer:2", "clock": "makespan"}
        amsfl.run(data="digits", transmit="topk:0.1,q8", **late)


def test_labels_that_cannot_be_squared() -> None:
    table = {"a": np.linspace(0, 1, 60), "label": np.linspace(1e299, 1e300, 60)}
    scores = amsfl.run(dataset=table, **ONE_ROUND).summary.metrics["holdout"]
    assert 1e297 < scores["mae"] <= scores["rmse"] < 1e300 and scores["r2"] > -1


def test_lists_of_columns_and_a_sweep_over_nothing() -> None:
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "b": rng.normal(size=60), "label": ["x", "y"] * 30}
    assert amsfl.run(dataset=table, drop=["a"], **ONE_ROUND).parts.data.features == ("b",)
    with pytest.raises(UserError, match="sweep takes settings"):
        amsfl.sweep(1)  # type: ignore[arg-type]


def test_a_site_column_is_said() -> None:
    table = {"a": [i % 7 for i in range(60)], "site": ["n", "s"] * 30, "label": ["x", "y", "y"] * 20}
    data = load(table)
    assert "training rows: n" in " ".join(describe(data))
    with pytest.raises(UserError, match="did you mean 'site'"):
        load(table, client_column="Site")


@pytest.mark.parametrize("steps", [[3, -200, 3], [0, 0, 0], [1.5, 2, 2], [np.nan] * 3, [1, 1]])
def test_a_policy_of_your_own_plans_whole_steps_of_everybody(steps: list[float]) -> None:
    policy = amsfl.Policy(
        "mine", lambda problem, _: as_plan(problem, np.ones(3, int))._replace(steps=np.array(steps))
    )
    with pytest.raises(UserError, match="'mine' planned"):
        amsfl.run(data="digits", clients=3, policy=policy, **ONE_ROUND)


def test_a_round_end_that_never_comes_is_said() -> None:
    never = amsfl.RoundEnd("never", ready=lambda *_: False)
    with pytest.raises(UserError, match="'never' takes none"):
        amsfl.run(data="digits", clients=3, round_end=never, clock="makespan", **ONE_ROUND)


def test_a_cohort_of_more_clients_than_the_data_names_is_told_what_helps() -> None:
    table = {"x": np.arange(30) % 7, "site": list("abc") * 10, "label": ["yes", "no"] * 15}
    with pytest.raises(UserError, match="does not fit 3 clients; lower --cohort") as said:
        amsfl.run(dataset=table, client_column="site", cohort=9, **ONE_ROUND)
    assert "--clients" not in str(said.value)


def test_a_frame_is_a_table(tmp_path: Path) -> None:
    """What a file's run does and says a frame's does, too: patience, and remarks on what was left out."""
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "row": np.arange(60), "label": [None, *["x", "y"] * 29, "x"]}
    settings = ONE_ROUND | {"rounds": 60, "details": ""}
    with pytest.warns(Remark) as said:
        result = amsfl.run(dataset=table, out=tmp_path / "run", **settings)
    assert result.parts.config.stop_after == 30
    lines = [str(each.message) for each in said]
    assert any("without label" in line for line in lines) and any("'row'" in line for line in lines)
    assert len(read_run(str(tmp_path / "run")).rounds) == len(result.rounds)


def test_a_sweep_says_what_has_no_effect() -> None:
    with pytest.warns(Remark, match="'steps' has no effect"):
        amsfl.sweep({"steps": [2, 5]}, data="digits", **ONE_ROUND | {"method": "amsfl"})
