"""What arithmetic is made of, and a minibatch taken piece by piece."""

import jax
import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import methods
from amsfl.core import RowPrivacy, UserError
from amsfl.data import partition
from amsfl.engines import memory, models, task
from amsfl.engines.worker_threads import in_threads
from amsfl.simulation import make_config
from amsfl.simulation.components import pieces_of, precision


@pytest.mark.parametrize(
    ("name", "products"), [("float32", None), ("strict", "highest"), ("bf16", "BF16_BF16_F32")]
)
def test_products_are_as_the_run_says_in_every_thread(name, products):
    """And nowhere after it."""

    def seen():
        return jax.config.jax_default_matmul_precision

    with precision(make_config({"precision": name})):
        each = in_threads(seen)
        assert each([(), (), ()]) == each([(), (), ()]) == [products] * 3
    assert seen() is None


def test_a_minibatch_by_pieces_is_the_same_minibatch():
    settings = SMALL | {"clients": 3, "dataset": own_data(), "rounds": 2}
    whole, parted = amsfl.run(**settings), amsfl.run(**settings, pieces=4)
    assert np.abs(whole.params - parted.params).max() < 1e-14
    with pytest.raises(UserError, match="16 rows of a minibatch do not make 3"):
        amsfl.run(**settings, pieces=3)
    private = methods.make("fedavg")._replace(private_rows=RowPrivacy(1.0))
    with pytest.raises(UserError, match="leave --pieces out"):
        pieces_of(make_config({"pieces": 2}), None, private)


def test_pieces_and_lanes_follow_a_gpus_memory(monkeypatch):
    """A batch of 64 rows is parted until a client's step fits; what fits easily is done side by side."""
    data = own_data()
    parts = [partition("iid", data.y, 3, 0)]
    job = task.make(data, models.make("mlp:512-512", 2, 2), parts, [0])
    method = methods.make("fedavg")
    need = memory.lane_bytes(job, method, 64)
    assert need > 4 * (7 * job.dim + 64 * (512 + 512))  # its vectors, and every layer's outputs
    monkeypatch.setattr(memory, "half_a_gpu", lambda: need)
    assert memory.pieces(job, method, 64) == 1
    assert memory.room_for(need // 10, 100) == 10
    monkeypatch.setattr(memory, "half_a_gpu", lambda: need - 1)
    assert memory.pieces(job, method, 64) == 2
    monkeypatch.setattr(memory, "half_a_gpu", lambda: 1)
    assert memory.pieces(job, method, 48) == 16  # what is left, 3 rows, cannot be halved
