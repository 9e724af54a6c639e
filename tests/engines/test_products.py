"""Large products by BLAS: the numbers are those of numpy and of XLA, wherever jax puts the call."""

import sys
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amsfl import methods
from amsfl.data import load
from amsfl.engines import Orders, blas, dense, devices, models, products, task
from amsfl.engines.convolution import convolved
from amsfl.engines.jax_engine import Lanes

LARGE = (48, 300, 320)  # rows, inputs, outputs


@pytest.fixture
def by_blas() -> None:
    if products.library() is None:
        pytest.skip("no BLAS that products could be left to")


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def calls(function, *given) -> int:
    return str(jax.make_jaxpr(function)(*given)).count("ffi_call[")


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_every_side_may_be_turned(by_blas, turn_a, turn_b):
    rows, inner, columns = LARGE
    a, b = drawn(rows, inner), drawn(inner, columns)
    given = a.T.copy() if turn_a else a, b.T.copy() if turn_b else b
    multiply = partial(products.times, turn_a=turn_a, turn_b=turn_b, layer=inner * columns)
    assert calls(multiply, *given) == 1
    np.testing.assert_allclose(jax.jit(multiply)(*given), a.astype(np.float64) @ b, atol=1e-4)


def test_gradients_loops_and_lanes_are_as_with_xla(by_blas, monkeypatch):
    rows, inputs, outputs = LARGE
    x, weight = drawn(rows, inputs), drawn(inputs, outputs)

    def walk():  # a new one each time: jax keeps what it has traced
        def further(weight, _):
            slope = jax.grad(lambda weight: jnp.sin(dense.product(x, weight, False)).sum())(weight)
            return weight - 1e-3 * slope, None

        return lambda weight: jax.lax.scan(further, weight, None, length=3)[0]

    lanes = jnp.stack([weight, weight + 1])
    found = jax.jit(jax.vmap(walk()))(lanes)
    assert calls(walk(), weight) == 3  # the last is the gradient of x, which the compiler drops
    monkeypatch.setattr(products, "library", lambda: None)
    assert calls(walk(), weight) == 0
    np.testing.assert_allclose(found, jax.jit(jax.vmap(walk()))(lanes), atol=2e-4)


@pytest.mark.parametrize(
    ("channels", "side", "stride"), [(1, 6, 1), (3, 7, 2), (5, 6, 2), (5, 7, 2), (5, 6, 1)]
)
def test_convolutions_and_their_gradients_are_those_of_xla(channels, side, stride):
    maps, weight = drawn(3, side, side, channels), drawn(9 * channels, 4)

    def theirs(maps, weight):
        kernels, axes = weight.reshape(3, 3, channels, 4), ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            maps, kernels, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=axes
        )

    def ours(maps, weight):
        return convolved(dense.Layer(weight, np.zeros(4, np.float32)), maps, stride)

    (found, back), (expected, truth) = (jax.vjp(function, maps, weight) for function in (ours, theirs))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    d = drawn(*expected.shape)
    for slope, true in zip(jax.jit(back)(d), jax.jit(truth)(d), strict=True):
        np.testing.assert_allclose(slope, true, atol=1e-4)


@pytest.mark.parametrize("wide, narrow", [(50, 3), (3, 50), (40, 40)])
def test_whichever_side_is_turned_the_product_is_the_same(wide, narrow):
    a, b = drawn(64, wide), drawn(64, narrow)
    found = jax.jit(partial(products.times, turn_a=True))(a, b)
    np.testing.assert_allclose(found, a.T.astype(np.float64) @ b, atol=1e-4)


def test_small_layers_and_double_precision_stay_with_xla():
    x, weight = drawn(5000, 122), drawn(122, 64)
    assert calls(lambda x: dense.product(x, weight, False), x) == 0
    with jax.enable_x64(True):
        x, weight = drawn(*LARGE[:2]).astype(float), drawn(*LARGE[1:]).astype(float)
        assert calls(lambda x: dense.product(x, weight, False), x) == 0


def test_a_round_has_the_same_bits_on_one_worker_and_on_two(by_blas):
    data = load("digits")
    model = models.make("mlp:300-900", data.x.shape[1], len(data.classes))
    parts = [np.arange(place * 20, place * 20 + 20 + place) for place in range(4)]
    job = task.make(data, model, [parts], [0])
    orders = Orders(np.arange(4)[None], np.array([[1, 2, 3, 4]]), np.array([0.05]), job.shards.weights)

    def after(workers: int) -> np.ndarray:
        engine = Lanes(job, methods.make("fedavg"), 32, workers=workers, mesh=devices.mesh(1))
        return np.asarray(engine.round(engine.start(), orders, 0)[0].anchor)

    assert (after(1) == after(2)).all()


def test_what_cannot_be_relied_on_is_left_to_xla(monkeypatch):
    monkeypatch.setattr(blas, "_register", lambda address: None)
    monkeypatch.setattr(blas, "_right", lambda: False)
    assert blas.library.__wrapped__() is None
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert blas.library.__wrapped__() is None


def test_an_interrupt_inside_a_product_is_not_lost(by_blas):
    a, b = drawn(*LARGE[:2]), drawn(*LARGE[1:])
    multiply = jax.jit(partial(products.times, layer=products.LAYER))
    before = np.asarray(multiply(a, b))
    blas._lost.append("KeyboardInterrupt()")
    with pytest.raises(Exception, match=r"A product was interrupted: KeyboardInterrupt"):
        jax.block_until_ready(multiply(a, b))
    assert (np.asarray(multiply(a, b)) == before).all()


def test_records_name_the_library_of_large_layers_only(by_blas):
    small, large = (models.make(f"mlp:{size}", 122, 5).layers for size in (64, 512))
    assert products.named(small) is None
    assert products.named(large) == products.library()
    assert products.named([SimpleNamespace(kind="conv", inputs=64, outputs=128)]) == products.library()
