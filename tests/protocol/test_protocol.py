"""A client's round and what the server sees of it, by hand; trials that are as they are alone."""

import numpy as np
import pytest
from federation_small import own_data

from amsfl import methods, protocol
from amsfl.core import Reading
from amsfl.methods.base import clip, least
from amsfl.simulation import CustomParts, make_config
from amsfl.simulation.setup import assemble


@pytest.mark.parametrize("small", [1e-7, 0.003, 0.0299, 1 / 16 + 1e-4])
def test_the_smaller_of_two_numbers_is_one_of_them(small):
    """(a + b - |a - b|) / 2 with a million in float32 knows multiples of 1/16 only, and 0 below 0.03."""
    a, b = np.float32(small), np.float32(1e6)
    assert least(a, b) == least(b, a) == a and clip(a, np.float32(0), b) == a
    assert not np.isfinite(least(np.float32(np.nan), b))


def worked(method, grads, last=None, held=None):
    """A client that began at 0 and stepped at rate 1/2 along these gradients, the first of loss 0.7."""
    x = np.zeros(2)
    state = protocol.begin(method, protocol.LocalState(x, x[:0], x[:0], 0.5, held=held))
    state = state._replace(loss=0.7, grad=np.array(grads[0]))
    for grad in grads:
        state = protocol.local_step(method, state, np.array(grad))
    state = state if last is None else state._replace(last=np.array(last))
    return protocol.finish(method, state, float(len(grads)))


def test_a_clients_round_by_hand():
    """d = -(3, 4)/2 - (1, 0)/2 = (-2, -2). g = (3, 4), h = (1, 4): <g, h - g> = -6, ||h - g||^2 = 4."""
    upload, _, reading = worked(methods.make("amsfl"), [[3.0, 4.0], [1.0, 0.0]], [1.0, 4.0], (0.9, 0.2))
    assert (upload.delta.tolist(), upload.delta_sq, upload.extra.size) == ([-2, -2], 8, 0)
    assert reading == Reading(0.7, 25, -6, 4, 0.9, 0.2)
    seen = protocol.measured(reading, upload.delta, np.array([-1.0, 0.5]))
    assert seen == reading._replace(delta_sq=8, delta_dir=1)


def test_without_a_reading_the_server_sees_the_upload():
    """No second look: what is sent is d alone. Nobody holds rows back: NaN."""
    amsfl = methods.make("amsfl")
    upload, _, nothing = worked(amsfl, [[3.0, 4.0]])
    assert nothing is None
    seen = protocol.measured(None, upload.delta, np.array([-2.0, 0.0]))
    assert seen[:4] == (0, 0, 0, 0) and np.isnan(seen[4:6]).all() and seen[6:] == (6.25, 3)
    reading = worked(amsfl, [[3.0, 4.0]], [1.0, 4.0])[2]
    assert np.isnan([reading.held_loss, reading.spread]).all() and reading.grad_sq == 25


def test_momentum_at_clients_by_hand():
    """v = g_1, then m v + g_2 with m = 1/2: y = -(1/2)(3, 4) - (1/2)(2.5, 2)."""
    heavy = methods.ClientMomentum(methods.make("fedavg"), 0.5, 0.0)
    assert worked(heavy, [[3.0, 4.0], [1.0, 0.0]])[0].delta.tolist() == [-2.75, -3.0]


def test_drawn_profiles_follow_each_trials_own_seed():
    """In a batch as alone."""
    settings = {"method": "fedavg", "model": "softmax", "clients": 4, "profile": "lognormal:0.02,0.8"}
    own = CustomParts(own_data())
    configs = [make_config(settings | own.names() | {"seed": seed}) for seed in (0, 1)]
    both, alone = assemble(configs, own), assemble(configs[1:], own)
    np.testing.assert_array_equal(both.costs[1].step_seconds, alone.costs[0].step_seconds)
    assert (both.costs[0].step_seconds != both.costs[1].step_seconds).any()
