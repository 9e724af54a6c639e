"""A client's round, its upload's way, what the server makes of it: by hand and in both engines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given
from hypothesis import strategies as st

import amsfl
from amsfl import combine, methods, protocol, sampling, transmit
from amsfl.core import Combine, Combined, Reading, Transmit, UserError
from amsfl.engines.optimizers import client_steps
from amsfl.methods import Federation
from amsfl.methods.base import clip, least, upload
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
    by = method.client_optimizer
    state = protocol.begin(protocol.LocalState(x, x[:0], x[:0], 0.5, held=held), by)
    state = state._replace(loss=0.7, grad=np.array(grads[0]))
    for grad in grads:
        state = protocol.local_step(method, state, np.array(grad), optimizer=by)
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
    heavy = methods.ClientOptimizer(methods.make("fedavg"), client_steps("momentum:0.5"))
    assert worked(heavy, [[3.0, 4.0], [1.0, 0.0]])[0].delta.tolist() == [-2.75, -3.0]


def test_drawn_profiles_follow_each_trials_own_seed():
    """In a batch as alone."""
    settings = {"method": "fedavg", "model": "softmax", "clients": 4, "profile": "lognormal:0.02,0.8"}
    own = CustomParts(own_data())
    configs = [make_config(settings | own.names() | {"seed": seed}) for seed in (0, 1)]
    both, alone = assemble(configs, own), assemble(configs[1:], own)
    np.testing.assert_array_equal(both.costs[1].step_seconds, alone.costs[0].step_seconds)
    assert (both.costs[0].step_seconds != both.costs[1].step_seconds).any()


KEY = sampling.stream(*map(sampling.words, (3, 1, 4)))


def numbers(size: int, seed: int = 0):
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def through(way: Transmit, vector, memory=None, extra=None):
    """What arrives, what is remembered, what travelled."""
    sent = upload(vector, extra)
    parts = {"delta": sent.delta, "extra": sent.extra}
    with np.errstate(over="ignore"):
        coded, memory = way.encode(KEY, parts, way.init(parts) if memory is None else memory)
    return way.decode(coded), memory, coded


def test_topk_by_hand():
    """Of (3, -5, 1, 4) half: -5 and 4; 3 and 1 wait. Then (1, 0, 2, 0): 1 + 3 and 2 + 1 go, 0 and 0 wait."""
    way = transmit.topk(0.5)
    arrived, memory, coded = through(way, np.array([3.0, -5.0, 1.0, 4.0]))
    assert arrived["delta"].tolist() == [0, -5, 0, 4] and memory.tolist() == [3, 0, 1, 0]
    assert {name: part.shape for name, part in coded.items()} == {
        "extra": (0,),
        "delta.of": (0, 4),
        "delta.index": (2,),
        "delta.value": (2,),
    }
    arrived, memory, _ = through(way, np.array([1.0, 0.0, 2.0, 0.0]), memory)
    assert arrived["delta"].tolist() == [4, 0, 3, 0] and memory.tolist() == [0, 0, 0, 0]


@given(st.integers(1, 3000), st.sampled_from([0.01, 0.1, 1.0]), st.integers(0, 5))
def test_topk_loses_nothing(size, share, seed):
    """What arrived and what waits are what was there, both vectors."""
    v, extra = numbers(size, seed), numbers(size, seed + 9)
    arrived, memory, _ = through(transmit.topk(share), v, extra=extra)
    np.testing.assert_array_equal(arrived["delta"] + memory[:size], v)
    np.testing.assert_array_equal(arrived["extra"] + memory[size:], extra)
    assert (arrived["delta"] != 0).sum() <= max(1, round(share * size))


def test_q8_is_unbiased_and_within_a_step():
    """Every number lies between its two neighbours on the grid, and the mean over many keys is the number."""
    v, seen = numbers(1500), []
    for client in range(400):
        key = sampling.stream(*map(sampling.words, (0, 0, client)))
        with np.errstate(over="ignore"):
            coded, _ = transmit.q8().encode(key, {"delta": v, "extra": v[:0]}, v[:0])
        seen.append(transmit.q8().decode(coded)["delta"])
    scale = np.repeat([abs(v[:1024]).max() / 127, abs(v[1024:]).max() / 127], [1024, 476])
    assert (abs(seen - v) <= scale * (1 + 1e-4)).all()
    assert abs((np.mean(seen, 0) - v) / scale).max() < 5 * 0.5 / 400**0.5


def test_bytes_are_those_of_what_travels():
    """10,117 numbers: 40,468 bytes plain; a tenth as number and place 8 * 1,012; as bytes 10,117 and a scale
    for each of ten blocks; a tenth as bytes 4 * 1,012 + 1,012 + one scale. SCAFFOLD sends two of all."""
    for spec, expected in {
        "": 40_468,
        "topk:0.1": 8096,
        "q8": 10_117 + 40,
        "topk:0.1,q8": 4048 + 1012 + 4,
    }.items():
        for name, times in (("fedavg", 1), ("scaffold", 2)):
            sent = protocol.upload_bytes(methods.make(name), transmit.make(spec), 10_117)
            assert sent == times * expected


def test_numpy_and_jax_send_the_same():
    """Two uploads one after another, so that what was remembered is used."""
    way, found = transmit.make("topk:0.2,q8"), []
    for wrap, run in ((np.asarray, lambda function: function), (jnp.asarray, jax.jit)):
        key, encode = tuple(map(wrap, KEY)), run(way.encode)
        parts = {"delta": wrap(numbers(3000)), "extra": wrap(numbers(3000, 1))}
        memory = run(way.init)(parts)
        for _ in range(2):
            with np.errstate(over="ignore"):
                coded, memory = encode(key, parts, memory)
        found.append([*run(way.decode)(coded).values(), memory])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("spec", ["topk:0.2", "q8", "topk:0.2,q8"])
def test_what_is_not_finite_is_not_hidden(spec):
    v = numbers(40)
    v[7] = np.nan
    arrived, _, _ = through(transmit.make(spec), v)
    assert not np.isfinite(arrived["delta"]).all()


def test_a_rule_sees_what_would_be_averaged():
    """A rule that changes nothing changes nothing, for methods that mix by other weights, too."""
    nothing = Combine("nothing", lambda uploads, weights, steps, history: Combined(uploads, weights))
    rng = np.random.default_rng(0)
    uploads = [upload(part) for part in rng.normal(size=(3, 5))]
    weights, steps, anchor = np.array([0.5, 0.2, 0.1]), np.array([1.0, 7.0, 3.0]), rng.normal(size=5)
    for name in ("fedavg", "fednova", "amsfl", "feddyn"):
        method = methods.make(name)
        server = method.init(anchor)[0]
        plain, ruled = (
            protocol.settle(federation, anchor, server, weights, steps, uploads)
            for federation in (Federation(method), Federation(method, rule=nothing))
        )
        np.testing.assert_allclose(ruled[0], plain[0], rtol=1e-12)


def test_what_is_left_out_of_an_upload_saves_bytes_and_time():
    """Engines are held against each other in tests/engines."""
    settings = SMALL | {"dataset": own_data(), "rounds": 4, "method": "scaffold", "engine": "loop"}
    sparse, plain = (amsfl.run(**settings | {"transmit": some}) for some in ("topk:0.3", ""))
    assert sparse.params.tobytes() != plain.params.tobytes()
    assert sparse.summary.bytes_up < plain.summary.bytes_up
    assert sparse.summary.virtual_seconds < plain.summary.virtual_seconds  # of the same steps


def test_mistakes_raise_user_errors():
    with pytest.raises(UserError, match="did you mean 'topk'"):
        transmit.make("topp:0.1")
    with pytest.raises(UserError, match="above 0 and at most 1"):
        transmit.make("topk:3")
    with pytest.raises(UserError, match="did you mean 'median'"):
        combine.make("medain")
