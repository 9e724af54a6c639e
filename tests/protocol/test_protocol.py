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


def begun(method: methods.Method, x: np.ndarray, lr: np.float32) -> protocol.LocalState:
    """A client of a server that sends it the model alone."""
    own = method.arithmetic.init(x)[1]
    return protocol.begin(method, protocol.receive(method, protocol.LocalState(x, x[:0], own, lr)))


def opened(curvature: float, part: float = 1.0):
    """A client of AMSFL after its opening on a quadratic of this curvature: loss 0.5, ||g||^2 = 25,600."""
    method = methods.make("amsfl")
    grad, x = np.full(4, 80, np.float32), np.zeros(4, np.float32)
    start = begun(method, x, np.float32(part))
    trial = protocol.trial_step(method, start, np.float32(0.5), grad)
    return protocol.open_rate(method, trial, grad + np.float32(curvature) * trial.x), grad, trial


def test_the_opening_follows_the_curvature_along_its_trial_step():
    """A trial of 0.02 loss/||g||^2; then the shorter of 1/(2 curvature) and a quarter of loss/||g||^2."""
    polyak = 0.5 / 25_600
    steep, grad, trial = opened(1e6)
    np.testing.assert_allclose(trial.x, -0.02 * polyak * grad, rtol=1e-5)
    assert steep.lr == pytest.approx(0.5e-6, rel=1e-3)
    np.testing.assert_allclose(steep.x, -steep.lr * grad, rtol=1e-5)
    for curvature in (100.0, 0.0, -100.0):  # no steeper than the loss itself says, or not curved upwards
        assert opened(curvature)[0].lr == pytest.approx(polyak / 4, rel=1e-3)
    assert opened(1e6, 0.1)[0].lr == pytest.approx(0.1 * steep.lr, rel=1e-5)  # a part of the client's own


def test_a_known_learning_rate_and_the_loss_both_limit_a_step():
    """min(lr, loss/||g||^2): 1e-6 is the shorter one, then 0.5 / 25,600 is."""
    method, grad, x = methods.make("amsfl"), np.full(4, 80, np.float32), np.zeros(4, np.float32)
    for lr, length in ((1e-6, 1e-6), (1.0, 0.5 / 25_600)):
        start = begun(method, x, np.float32(lr))
        moved = protocol.first_step(method, start, np.float32(0.5), grad)
        np.testing.assert_allclose(moved.x, -length * grad, rtol=1e-5)


def test_drawn_profiles_follow_each_trials_own_seed():
    """In a batch as alone."""
    settings = {"method": "fedavg", "model": "softmax", "clients": 4, "profile": "lognormal:0.02,0.8"}
    own = CustomParts(own_data())
    configs = [make_config(settings | own.names() | {"seed": seed}) for seed in (0, 1)]
    both, alone = assemble(configs, own), assemble(configs[1:], own)
    np.testing.assert_array_equal(both.costs[1].step_seconds, alone.costs[0].step_seconds)
    assert (both.costs[0].step_seconds != both.costs[1].step_seconds).any()
