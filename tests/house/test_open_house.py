"""From an empty folder outside of the package: a method, a policy, a combine rule and a transmission, one
short file each, through everything that ours go through."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import succeed
from federation_small import SMALL, own_data

import amsfl
from amsfl import methods
from amsfl.methods import base
from amsfl.methods.base import upload

HERE = Path(__file__).parents[1] / "open_house"
SETTINGS = {"data": "digits", "model": "softmax", "clients": 3, "partition": "iid", "batch": 16, "lr": 1.0}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """The folder, as the current one and on the path, as it is for whoever types a command there."""
    where = tmp_path_factory.mktemp("house") / "mine"
    shutil.copytree(HERE, where)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        patch.syspath_prepend(str(where))
        yield where


def test_each_is_short():
    for name in ("damped", "rising", "central", "halves"):
        assert len((HERE / f"{name}.py").read_text().splitlines()) < 40


def test_both_engines_agree(house):
    """Objects on one side, names of files on the other; planned steps, a rule, and half of the bytes."""
    from central import central
    from damped import damped
    from halves import halves
    from rising import rising

    objects = {"method": damped(), "policy": rising(), "robust": central(), "transmit": halves()}
    names = {key: f"{thing.name}:{thing.name}" for key, thing in objects.items()}
    common = SETTINGS | {"rounds": 8, "precision": "float64"}
    by_object = amsfl.run(**common, **objects, engine="loop")
    by_name = amsfl.run(**common, **names, engine="jax")
    np.testing.assert_allclose(by_object.params, by_name.params, rtol=1e-3, atol=1e-5)
    assert by_object.accuracy > 0.5
    assert [record.steps for record in by_name.rounds[:3]] == [[2, 1, 1], [3, 2, 2], [4, 3, 2]]
    assert by_object.summary.bytes_up == 8 * 3 * 2 * 650 == by_name.summary.bytes_up


@pytest.mark.usefixtures("without_figures")
def test_compared_and_reported(house):
    """By names on the command line; the page names the method as its author does, escaped."""
    flags = [f"--{key}={value}" for key, value in (SETTINGS | {"engine": "loop"}).items()]
    flags += ["--methods=fedavg,damped:damped", "--rounds=3", "--trials=2", "--tune=none", "--out=study"]
    succeed("compare", *flags)
    page = (house / "study" / "report.html").read_text()
    assert "Damped &lt;b&gt;averaging&lt;/b&gt;" in page and "<b>averaging" not in page
    found = json.loads((house / "study" / "summary.json").read_text())
    assert set(found["methods"]) == {"fedavg", "damped.damped"}


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
