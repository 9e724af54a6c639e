"""Ordinary mistakes in Python and what is said of them; numpy's warnings stay away."""

import warnings

import numpy as np
import pytest

import amsfl
from amsfl.core import UserError
from amsfl.data import describe, load_table

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
