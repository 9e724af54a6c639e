"""What arithmetic is made of, and how much there is room for."""

import jax
import numpy as np
import pytest
from federation_small import SMALL, own_data

from amsfl import methods
from amsfl.data import partition
from amsfl.engines import memory, models, task
from amsfl.engines.client_program import ClientResult
from amsfl.settings.custom import CustomParts
from amsfl.simulation import make_config
from amsfl.simulation.components import precision
from amsfl.simulation.setup import assemble


@pytest.mark.parametrize(
    ("name", "products"), [("float32", None), ("strict", "highest"), ("bf16", "BF16_BF16_F32")]
)
def test_products_are_as_the_run_says_in_every_thread(name, products):
    """And nowhere after it."""
    seen = []

    def program(*_):
        seen.append(jax.config.jax_default_matmul_precision)
        return [np.zeros(0)] * len(ClientResult._fields)

    with precision(make_config({"precision": name})):
        parts = assemble([make_config(SMALL | {"engine": "jax", "clients": 3})], CustomParts(own_data()))
        engine = parts.engine
        engine._programs, engine._compiled = {True: program}, {(True,)}
        engine._run([((True,), ())] * 3)
    assert seen == [products] * 3 and jax.config.jax_default_matmul_precision is None


def test_lanes_follow_a_gpus_memory(monkeypatch):
    """What fits easily is done side by side."""
    data = own_data()
    job = task.make(data, models.make("mlp:512-512", 2, 2), [partition("iid", data.y, 3, 0)], [0])
    need = memory.lane_bytes(job, methods.Federation(methods.make("fedavg")), 64)
    assert need > 4 * (7 * job.dim + 64 * (512 + 512))  # its vectors, and every layer's outputs
    gpu = type("Device", (), {"memory_stats": lambda self: {"bytes_limit": 2 * need}})
    monkeypatch.setattr(memory.jax, "local_devices", lambda: [gpu()])
    assert memory.room_for(need // 10, 100) == 10
