"""Ordinary mistakes in Python and what is said of them; numpy's warnings stay away."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import amsfl
from amsfl.core import Remark, UserError
from amsfl.data import describe, load_table
from amsfl.planning import as_plan
from amsfl.record import read_run

SMALL = {"rounds": 1, "progress": False, "engine": "loop", "model": "softmax", "method": "fedavg"}


def test_compression_of_buffered_rounds_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        amsfl.run(
            data="digits",
            transmit="topk:0.1,q8",
            round_end="buffer:2",
            clock="makespan",
            **SMALL | {"rounds": 2},
        )


def test_labels_that_cannot_be_squared() -> None:
    table = {"a": np.linspace(0, 1, 60), "label": np.linspace(1e299, 1e300, 60)}
    with pytest.raises(UserError, match="another unit"):
        amsfl.run(dataset=table, **SMALL)


def test_lists_of_columns_and_a_sweep_over_nothing() -> None:
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "b": rng.normal(size=60), "label": ["x", "y"] * 30}
    assert amsfl.run(dataset=table, drop=["a"], **SMALL).parts.data.features == ("b",)
    with pytest.raises(UserError, match="sweep takes settings"):
        amsfl.sweep(1)  # type: ignore[arg-type]


def test_a_partition_beside_a_site_column_is_said() -> None:
    table = {"a": [i % 7 for i in range(60)], "site": ["n", "s"] * 30, "label": ["x", "y", "y"] * 20}
    data = load_table(table)
    assert "training rows: n" in " ".join(describe(data))
    assert "--partition iid deals all rows anew" in " ".join(describe(data, "iid"))
    with pytest.raises(UserError, match="did you mean 'site'"):
        load_table(table, client_column="Site")


@pytest.mark.parametrize("steps", [[3, -200, 3], [0, 0, 0], [1.5, 2, 2], [np.nan] * 3, [1, 1]])
def test_a_policy_of_your_own_plans_whole_steps_of_everybody(steps: list[float]) -> None:
    policy = amsfl.Policy(
        "mine", lambda problem, _: as_plan(problem, np.ones(3, int))._replace(steps=np.array(steps))
    )
    with pytest.raises(UserError, match="'mine' planned"):
        amsfl.run(data="digits", clients=3, policy=policy, **SMALL)


def test_a_round_end_that_never_comes_is_said() -> None:
    never = amsfl.RoundEnd("never", ready=lambda *_: False)
    with pytest.raises(UserError, match="'never' takes none"):
        amsfl.run(data="digits", clients=3, round_end=never, clock="makespan", **SMALL)


def test_a_cohort_of_more_clients_than_the_data_names_is_told_what_helps() -> None:
    table = {"x": np.arange(30) % 7, "site": list("abc") * 10, "label": ["yes", "no"] * 15}
    with pytest.raises(UserError, match="does not fit 3 clients; lower --cohort") as said:
        amsfl.run(dataset=table, client_column="site", cohort=9, **SMALL)
    assert "--clients" not in str(said.value)


def test_a_frame_is_a_table(tmp_path: Path) -> None:
    """What a file's run does and says a frame's does, too: patience, and remarks on what was left out."""
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "row": np.arange(60), "label": [None, *["x", "y"] * 29, "x"]}
    settings = SMALL | {"rounds": 60, "details": ""}
    with pytest.warns(Remark) as said:
        result = amsfl.run(dataset=table, out=tmp_path / "run", **settings)
    assert result.parts.config.stop_after == 30
    lines = [str(each.message) for each in said]
    assert any("without label" in line for line in lines) and any("'row'" in line for line in lines)
    assert len(read_run(str(tmp_path / "run")).rounds) == len(result.rounds)


def test_a_sweep_says_what_has_no_effect() -> None:
    with pytest.warns(Remark, match="'steps' has no effect"):
        amsfl.sweep({"steps": [2, 5]}, data="digits", **SMALL | {"method": "amsfl"})
