"""What programs are compiled for: not a method's numbers, but a precision and a GPU's memory."""

import jax
import numpy as np
import pytest
from federation_small import SMALL, own_data

from amsfl import methods
from amsfl.data import partition
from amsfl.engines import models, task
from amsfl.engines.contract import Results
from amsfl.engines.jax_engine import as_arguments
from amsfl.methods import Method
from amsfl.settings.custom import CustomParts
from amsfl.simulation import make_config
from amsfl.simulation.components import precision
from amsfl.simulation.rounds import begin, together
from amsfl.simulation.setup import assemble


def engine_of(method: Method):
    settings = {key: value for key, value in SMALL.items() if key not in ("engine", "dataset")}
    settings |= {"clients": 3, "engine": "jax"}
    return assemble([make_config(settings)], CustomParts(own_data(), method=method))


def lowered(setup) -> str:
    """The program of a round as it is handed to the compiler."""
    program, texts = setup.engine._wave, []

    def seen(*arguments):
        texts.append(program.lower(*arguments).as_text())
        return program(*arguments)

    setup.engine._wave = seen
    next(together(setup, begin(setup)))
    return texts[0]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        pytest.param("fedprox", {"mu": 0.01}, {"mu": 0.1}, marks=SLOW),
        ("feddyn", {"alpha": 0.1}, {"alpha": 1.0}),
        pytest.param(
            "fedcsda", {"mu": 0.1, "temperature": 4.0}, {"mu": 0.02, "temperature": 2.0}, marks=SLOW
        ),
    ],
)
def test_other_numbers_give_the_same_programs(name, one, other):
    """The compiler is given the same text, so its cache has the answer."""
    one, other = (engine_of(methods.make(name, options)) for options in (one, other))
    assert one.engine._wave is other.engine._wave  # the next run of a task traces nothing
    assert lowered(one) == lowered(other)
    assert jax.tree.leaves(one.engine.method) != jax.tree.leaves(other.engine.method)


def test_numbers_of_what_is_put_around_a_method_are_arguments_with_its_own():
    """FedProx within FedExP, and an optimizer over FedDyn: with other numbers they compute with those."""
    wrapped = methods.make("fedprox", {"mu": 0.3}, extrapolation=4.0)
    as_arguments(wrapped)
    assert sorted(jax.tree.leaves(wrapped)) == [0.3, 4.0]
    fresh = jax.tree.map(lambda number: number + 0.2, wrapped)
    assert fresh.correct(1.0, 3.0, 1.0, 0.0, 0.0) == 1 + 0.5 * 2 and fresh.cap == 4.2
    over = methods.optimize(methods.make("feddyn"), methods.server_optimizer("momentum:0.7"))
    as_arguments(over)
    assert sorted(jax.tree.leaves(over)) == [0.1, 0.7]


def test_what_a_method_branches_on_is_no_argument():
    method = methods.make("amsfl", {"judge": 0.0})
    as_arguments(method)
    assert len(jax.tree.leaves(method)) == 2 and not jax.tree.map(lambda number: number, method).judges


@pytest.mark.parametrize(
    ("name", "products"), [("float32", None), ("strict", "highest"), ("bf16", "BF16_BF16_F32")]
)
def test_products_are_as_the_run_says_in_every_thread(name, products):
    """And nowhere after it."""
    seen = []

    def program(*_):
        seen.append(jax.config.jax_default_matmul_precision)
        return Results(*[np.zeros(0)] * 4), np.zeros(0)

    with precision(make_config({"precision": name})):
        parts = assemble([make_config(SMALL | {"engine": "jax", "clients": 3})], CustomParts(own_data()))
        engine = parts.engine
        engine._wave, engine._compiled = program, {()}
        engine._run([((), ())] * 3, False)
    assert seen == [products] * 3 and jax.config.jax_default_matmul_precision is None


def test_lanes_follow_a_gpus_memory(monkeypatch):
    """What fits easily is done side by side."""
    data = own_data()
    job = task.make(data, models.make("mlp:512-512", 2, 2), [partition("iid", data.y, 3, 0)], [0])
    need = task.lane_bytes(job, methods.Federation(methods.make("fedavg")), 64)
    assert need > 4 * (7 * job.dim + 64 * (512 + 512))  # its vectors, and every layer's outputs
    gpu = type("Device", (), {"memory_stats": lambda self: {"bytes_limit": 2 * need}})
    monkeypatch.setattr(jax, "local_devices", lambda: [gpu()])
    assert task.room_for(need // 10, 100) == 10
