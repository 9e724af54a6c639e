"""A model that devices share: each has a part of every layer, and all end where one alone would.

Run as a script, this file is one of the processes that the tests start.
"""

import re
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path

import jax
import numpy as np
import pytest
from joined import found_by

import amsfl
from amsfl import engines, methods
from amsfl.core import UserError
from amsfl.data import Dataset
from amsfl.engines import Orders, devices, layout, models, task
from amsfl.engines.jax_engine import JaxEngine
from amsfl.engines.loop_engine import LoopEngine
from amsfl.record.run import load_checkpoint

Found = dict[str, np.ndarray]
LIMIT = 100
OWN = {"model": "mlp:7-4", "steps": 3, "lr": 0.3}
HIDDEN = OWN | {"method": "fedavg", "epsilon": 8.0, "delta": 1e-5}
RUNS = {name: OWN | {"method": name} for name in methods.names() if name != "amsfl"} | {
    "readings": {"method": "amsfl", "model": "mlp:8", "local_accuracy": True, "seed": 1},
    "rows": HIDDEN | {"privacy": "record"},
    "whole": HIDDEN | {"privacy": "client", "cohort": 3},
    "median": OWN | {"method": "fedavg", "robust": "median", "attack": "signflip:1"},
    "optimizer": OWN | {"method": "scaffold", "server_optimizer": "adam", "cohort": 2},
}


def rows_of(count: int) -> Dataset:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, count).astype(np.int32)
    x = rng.normal(size=(count, 6)) + y[:, None]
    return Dataset("rows", x, y, {"holdout": (x[:50], y[:50])}, tuple("abc"), tuple("uvwxyz"))


def held(state: engines.State) -> list[float]:
    """How much of each of a state's vectors this process has."""
    return [part.addressable_shards[0].data.size / part.size for part in state if part.size]


def two_rounds(make: Callable[..., engines.Engine]) -> Found:
    """Of the engine itself: the last readings, and what a checkpoint would hold."""
    network = models.make("softmax", 6, 3)
    job = task.make(rows_of(60), network, [np.arange(60).reshape(3, 20)], (0,), np.float64)
    engine = make(job, methods.make("scaffold"), 8, readings=True)
    state = engine.start()
    first = held(state) if isinstance(engine, JaxEngine) else []
    for number in range(2):
        steps = np.array([[1 + number, 3, 2]])
        orders = Orders(np.arange(3)[None], steps, np.array([0.4]), job.shards.weights)
        state, outcome = engine.round(state, orders, number)
    told = engine.to_host(state)._asdict() | {"readings": outcome.readings, "held": first}
    return {name: np.asarray(part) for name, part in told.items()}


def whole_runs(parts: int, folder: Path | None = None) -> Found:
    found: Found = {}
    for name, settings in RUNS.items():
        common = {"rounds": 3, "clients": 4, "precision": "float64", "details": False, "shard_model": parts}
        out = folder and folder / name
        run = amsfl.run(dataset=rows_of(200), out=out, **common | settings)
        told = {
            "params": run.params,
            "losses": [each.metrics["holdout"]["loss"] for each in run.rounds],
            "local": [*(run.summary.local_accuracy or {}).values()],
            "held": held(run.parts.engine.start()),
        }
        found |= {f"{name}/{key}": np.asarray(part, float) for key, part in told.items()}
    return found


def work(rank: int, port: int, file: Path, which: str) -> None:
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank, initialization_timeout=60)
    if which == "engine":
        found = two_rounds(
            lambda *given, **more: JaxEngine(*given, **more, lanes=1, mesh=devices.mesh(parts=2))
        )
    else:
        found = whole_runs(2, file.parent if rank == 0 else None)
    np.savez(file, **found)


def alike(found: Found, expected: Found) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name.endswith("held"):
            assert found[name].size
            assert (found[name] == 0.5).all(), name
        else:
            np.testing.assert_allclose(found[name], value, rtol=1e-8, atol=1e-11, err_msg=name)


@pytest.mark.slow
def test_two_processes_share_a_model_and_end_where_the_reference_does(tmp_path):
    """Each has half of every vector of SCAFFOLD's: the model, both control variates, the last step."""
    expected = two_rounds(LoopEngine)
    for found in found_by(__file__, tmp_path, 2, LIMIT, "engine"):
        alike(found, expected)


@pytest.mark.slow
def test_every_method_trains_a_shared_model(tmp_path, monkeypatch):
    """Whole runs, private and robust ones among them; the first process writes the records."""
    one = devices.mesh(1)
    monkeypatch.setattr(devices, "mesh", lambda parts=1: one)
    expected = whole_runs(1)
    for found in found_by(__file__, tmp_path, 2, 6 * LIMIT, "runs"):
        alike(found, expected)
    # a checkpoint is in the plain order, whoever shared the model; AMSFL's server has a', D', what is scored
    point = load_checkpoint(tmp_path / "readings")
    params = expected["readings/params"]
    np.testing.assert_allclose(
        point.arrays["server"][0, 2 * params.size : 3 * params.size], params, rtol=1e-8
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["amsfl", "fedadam"])
def test_no_weights_are_sent(method):
    """In a step and at its server's move at most what a layer makes of a minibatch; a client's begin, too."""
    network, batch = models.make("mlp:128-96", 6, 3), 4
    job = task.make(rows_of(40), network, [np.arange(40).reshape(2, 20)], (0,), np.float64)
    own = methods.make(method)
    engine = JaxEngine(job, own, batch, own.facts.readings, lanes=1, mesh=devices.mesh(2, parts=2))
    orders = engine._typed(Orders(np.arange(2)[None], np.full((1, 2), 3), np.ones(1), job.shards.weights))
    state, queue = engine.start(), engine._queues(orders.steps)[0][0]
    given = (
        engine.numbers,
        state,
        engine.rows,
        engine._table(orders, 0),
        engine._share(orders.weights, orders.steps),
        queue,
    )
    work = engine._work[False].lower(*given).compile()
    found = jax.tree.map(
        lambda leaf, placed: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=placed),
        jax.eval_shape(engine._work[False], *given),
        work.output_shardings,
    )
    rest = orders, [found], np.uint32(0), engine._seeds
    settle = engine._settle.lower(engine.numbers, state, *rest).compile()
    for program in (work, settle):
        sent = re.findall(r"= (.*?) (?:all-\w+|collective-permute|reduce-scatter)\(", program.as_text())
        assert sent
        sizes = [
            prod(map(int, filter(None, each.split(","))))
            for each in re.findall(r"\[([\d,]*)\]", " ".join(sent))
        ]
        assert max(sizes) <= batch * 128 < 6 * 128


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_the_sharded_layout_is_undone_exactly(parts):
    """A model of odd shapes: in parts of one size, and back to the bit; so does a state of several models."""
    shapes = (6, 4), (4,), (3, 5), (), (7, 12, 2)
    model = models.Model("odd", lambda key: [np.zeros(shape) for shape in shapes], lambda params, x: x)
    job = task.make(rows_of(10), model, [np.arange(10).reshape(2, 5)], (0,), np.float64)
    found = layout.make(job, methods.make("amsfl"), parts)
    assert found.size % parts == 0
    assert 0 <= found.size - job.dim < parts
    length, draw = found.lengths.server, np.random.default_rng(0).normal
    scalars = length % found.size
    plain = draw(size=(2, length // found.size * job.dim + scalars))
    lying = found.arranged(plain)
    assert lying.shape[-1] % parts == 0
    np.testing.assert_array_equal(found.plain(lying, length), plain)
    np.testing.assert_array_equal(found.folded(found.opened(lying, length)), lying)
    numbers = np.arange(float(job.dim))
    leaves = found.leaves(found.arranged(numbers))
    np.testing.assert_array_equal(np.concatenate([leaf.ravel() for leaf in leaves]), numbers)
    np.testing.assert_array_equal(jax.jit(found.places)(), found.arranged(numbers))


def test_errors_of_shared_models():
    few = {"dataset": rows_of(40), "model": "softmax", "rounds": 1, "clients": 2}
    with pytest.raises(UserError, match="1000 devices"):
        amsfl.run(shard_model=1000, **few)
    with pytest.raises(UserError, match="--shard-model"):
        amsfl.run(shard_model=2, engine="loop", **few)
    with pytest.raises(UserError, match="--round-end all"):
        amsfl.run(shard_model=2, failure=0.1, **few)


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
