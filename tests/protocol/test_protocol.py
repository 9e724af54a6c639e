"""The client's round in single precision, and trials that are as they are alone."""

import numpy as np
import pytest
from federation_small import own_data

from amsfl import methods, protocol
from amsfl.methods.operators import clip, least
from amsfl.simulation import CustomParts, make_config
from amsfl.simulation.setup import assemble


@pytest.mark.parametrize("small", [1e-7, 0.003, 0.0299, 1 / 16 + 1e-4])
def test_the_smaller_of_two_numbers_is_one_of_them(small):
    """(a + b - |a - b|) / 2 with a million in float32 knows multiples of 1/16 only, and 0 below 0.03."""
    a, b = np.float32(small), np.float32(1e6)
    assert least(a, b) == least(b, a) == a and clip(a, np.float32(0), b) == a
    assert not np.isfinite(least(np.float32(np.nan), b))


def test_the_first_stride_is_the_longest_of_a_round_without_lr():
    """loss 0.5 and ||g||^2 = 25,600 (features ten times as large): a stride of 0.5 / 25,600 = 1.95e-5,
    which moves; with an lr known, the shorter of the two counts."""
    method = methods.make("amsfl")
    grad, x = np.full(4, 80, np.float32), np.zeros(4, np.float32)
    loss, want = np.float32(0.5), np.float32(methods.make("amsfl").arithmetic.stride(0.5, 25_600.0))
    free = protocol.first_step(
        method, protocol.begin(method, protocol.LocalState(x, x[:0], x[:0], np.float32(1), 0.0)), loss, grad
    )
    assert free.lr == pytest.approx(want, rel=1e-6) and want == pytest.approx(0.5 / 25_600)
    np.testing.assert_allclose(free.x, -want * grad, rtol=1e-6)
    longer = protocol.local_step(method, free, np.float32(5), grad)  # ten times as long, cut to the first
    np.testing.assert_allclose(longer.x, 2 * free.x, rtol=1e-6)
    wary = protocol.first_step(
        method, protocol.begin(method, protocol.LocalState(x, x[:0], x[:0], np.float32(0.1), 0.0)), loss, grad
    )
    np.testing.assert_allclose([wary.lr, *wary.x], [0.1 * free.lr, *(0.1 * free.x)], rtol=1e-6)
    known = protocol.first_step(
        method,
        protocol.begin(method, protocol.LocalState(x, x[:0], x[:0], np.float32(1e-6), 1.0)),
        loss,
        grad,
    )
    np.testing.assert_allclose(known.x, -1e-6 * grad, rtol=1e-6)


def test_drawn_profiles_follow_each_trials_own_seed():
    """In a batch as alone."""
    settings = {"method": "fedavg", "model": "softmax", "clients": 4, "profile": "lognormal:0.02,0.8"}
    own = CustomParts(own_data())
    configs = [make_config(settings | own.names() | {"seed": seed}) for seed in (0, 1)]
    both, alone = assemble(configs, own), assemble(configs[1:], own)
    np.testing.assert_array_equal(both.costs[1].step_seconds, alone.costs[0].step_seconds)
    assert (both.costs[0].step_seconds != both.costs[1].step_seconds).any()
