"""Products and convolutions written for the CPU have the values and gradients of XLA's own."""

from functools import partial

import jax
import numpy as np
import pytest

from amsfl.engines import layers
from amsfl.engines.layers import convolve


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("channels", "side", "stride"),
    [(3, 7, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in [(1, 6, 1), (5, 6, 2), (5, 6, 1)])],
)
def test_convolutions_and_their_gradients_are_those_of_xla(channels, side, stride):
    maps, weight = drawn(3, side, side, channels), drawn(9 * channels, 4)

    def theirs(maps, weight):
        kernels, axes = weight.reshape(3, 3, channels, 4), ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            maps, kernels, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=axes
        )

    def ours(maps, weight):
        return convolve(layers.Layer(weight, np.zeros(4, np.float32)), maps, stride)

    (found, back), (expected, truth) = (jax.vjp(function, maps, weight) for function in (ours, theirs))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    d = drawn(*expected.shape)
    for slope, true in zip(jax.jit(back)(d), jax.jit(truth)(d), strict=True):
        np.testing.assert_allclose(slope, true, atol=1e-4)


@pytest.mark.parametrize("wide, narrow", [(50, 3), (3, 50), (40, 40)])
def test_products_with_a_transposed_side(wide, narrow):
    a, b = drawn(64, wide), drawn(64, narrow)
    found = jax.jit(partial(layers.times, turn_a=True))(a, b)
    np.testing.assert_allclose(found, a.T.astype(np.float64) @ b, atol=1e-4)
