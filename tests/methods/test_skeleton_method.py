"""The skeleton that CONTRIBUTING.md tells newcomers to copy works as it stands, and is short to read."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import methods
from amsfl.methods import base
from amsfl.methods.base import upload

FILE = Path(__file__).parents[2] / "docs" / "skeleton_method.py"


@pytest.fixture(scope="module")
def skeleton():
    spec = importlib.util.spec_from_file_location("skeleton_method", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Skeleton


def test_by_hand(skeleton):
    """beta = 1/2: v1 = d1 and x1 = x0 + d1; v2 = d1/2 + d2 and x2 = x1 + d1/2 + d2."""
    method = skeleton(beta=0.5)
    x, (server, client) = np.array([1.0, 2.0]), method.init(np.array([1.0, 2.0]))
    one, two, weights, steps = np.array([4.0, 0.0]), np.array([1.0, -1.0]), np.ones(1), np.ones(1)
    x, server = method.aggregate(x, upload(one), weights, steps, server)
    assert x.tolist() == [5, 2] and client.size == 0
    x, server = method.aggregate(x, upload(two), weights, steps, server)
    assert x.tolist() == [8, 1] and server.tolist() == [3, -1]


def test_one_row_in_the_table_is_enough_to_run(skeleton, monkeypatch):
    """Options, cost, both engines; with beta = 0 it is FedAvg to the bit."""
    monkeypatch.setitem(methods.METHODS.table, "skeleton", skeleton)
    settings = SMALL | {"dataset": own_data(), "method": "skeleton"}
    loop = amsfl.run(**settings)
    assert loop.summary.method == "skeleton" and loop.accuracy == 1.0
    jax = amsfl.run(**(settings | {"engine": "jax"}))
    np.testing.assert_allclose(loop.params, jax.params, rtol=1e-10)
    still = amsfl.run(**settings, options={"beta": 0.0})
    plain = amsfl.run(**(settings | {"method": "fedavg"}))
    assert still.params.tobytes() == plain.params.tobytes() != loop.params.tobytes()


def test_few_lines_to_read():
    files = [FILE, Path(base.__file__)]
    assert sum(len(file.read_text().splitlines()) for file in files) < 220
