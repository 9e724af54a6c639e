"""Larger models and their parts: on both engines, in every library, against XLA's own; users' modules."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blocks import ROOT, blocks

import amsfl
from amsfl import portable
from amsfl.core import UserError
from amsfl.data import Dataset, load
from amsfl.engines import layers, losses, models
from amsfl.engines.layers import convolve
from amsfl.portable.export import export
from amsfl.portable.model import PortableModel
from amsfl.portable.network import count_operations, logits, shapes

SPECS = {"transformer:16-1-20": 8, "cnn:4": 3 * 6 * 6}


def rows(spec: str, count: int = 60) -> Dataset:
    """Images of three colours, or rows of tokens; what is predicted follows from a few of the numbers."""
    rng, wide = np.random.default_rng(0), SPECS[spec]
    if "transformer" in spec:
        x = rng.integers(0, 20, (count, wide)).astype(np.float32)
        y = (x[:, 0] + x[:, 3] > 20).astype(np.int32)
    else:
        x = rng.normal(size=(count, wide)).astype(np.float32)
        y = (x[:, :9].sum(1) > 0).astype(np.int32)
    cut = count // 2
    names = tuple(f"f{place}" for place in range(wide))
    return Dataset("rows", x[:cut], y[:cut], {"holdout": (x[cut:], y[cut:])}, ("no", "yes"), names)


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_engines_agree_and_numpy_has_the_same_logits(spec: str) -> None:
    data, settings = rows(spec), {"method": "fedavg", "clients": 2, "rounds": 2, "steps": 3, "batch": 4}
    settings |= {"model": spec, "dataset": data, "partition": "iid", "precision": "float64"}
    found = [amsfl.run(**settings, engine=engine) for engine in ("loop", "jax")]
    np.testing.assert_allclose(found[0].params, found[1].params, rtol=0, atol=1e-10)
    network, x = models.make(spec, SPECS[spec], 2), data.x.astype(np.float64)
    with jax.enable_x64(True):
        params = found[0].parts.task.unravel(jnp.asarray(found[0].params))
        tensors = models.tensors(network, params)
        ours = jax.jit(network.apply)(params, x)
        np.testing.assert_allclose(ours, logits(network.layers, tensors, x), atol=1e-9)
    assert {name: part.shape for name, part in tensors.items()} == shapes(network.layers)
    assert sum(part.size for part in tensors.values()) == len(found[0].params)


@pytest.mark.parametrize("spec", SPECS)
def test_every_library_has_the_same_logits(spec: str, tmp_path: Path) -> None:
    data, network = rows(spec), models.make(spec, SPECS[spec], 2)
    params = jax.tree.map(lambda part: part.astype(np.float32), jax.jit(network.init)(jax.random.key(1)))
    x = data.evals["holdout"][0]
    expected = jax.jit(network.apply)(params, x)
    model = PortableModel(network.layers, models.tensors(network, params), data.classes, data.features)
    for to in ("torch", "onnx"):
        export(model, to, tmp_path / to)
    np.testing.assert_allclose(portable.load(tmp_path / "torch").logits(x), expected, atol=1e-5)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    np.testing.assert_allclose(session.run(None, {"features": x})[0], expected, atol=1e-5)
    torch = pytest.importorskip("torch")
    names: dict[str, Any] = {"__file__": str(tmp_path / "torch" / "model.py")}
    exec((tmp_path / "torch" / "model.py").read_text(), names)
    with torch.no_grad():
        np.testing.assert_allclose(names["load"]()(torch.from_numpy(x)).numpy(), expected, atol=1e-5)


def test_sizes_by_name() -> None:
    """By hand: 8192 x 128 tokens, 32 x 128 places, blocks of 12 x 128^2 and their biases and levels."""
    count = lambda model: sum(np.prod(shape) for shape in shapes(model.layers).values())  # noqa: E731
    block = 12 * 128**2 + (3 + 1 + 4 + 1) * 128 + 2 * 2 * 128
    assert count(models.make("transformer", 32, 4)) == 8192 * 128 + 32 * 128 + 2 * block + 256 + 4 * 129
    assert (
        count_operations(models.make("cnn", 784, 10).layers) == 2 * 9 * 16 * (784 + 16 * 196) + 2 * 3136 * 10
    )
    for spec, said in {
        "transformer:16-33": "33 blocks",
        "cnn:1-2": "takes 1 at most",
        "transformer:a": "as in transformer:128-2",
        "transformer:99999": "make layers smaller",
    }.items():
        with pytest.raises(UserError, match=said):
            models.make(spec, 64, 2)


def test_rows_that_are_no_tokens_are_refused() -> None:
    data, spec = rows("transformer:16-1-20"), "transformer:16-1-10"
    with pytest.raises(UserError, match=r"holds token 19.*WIDTH-BLOCKS-20"):
        amsfl.run(dataset=data, model=spec, rounds=1)
    with pytest.raises(UserError, match="whole and from 0 up"):
        amsfl.run(data="digits", model=spec, rounds=1)


MODULES = [block.text for block in blocks(ROOT / "docs/models.md") if "network = Model(" in block.text]


@pytest.mark.parametrize(("library", "text"), [*zip(("flax", "flax", "equinox"), MODULES, strict=True)])
def test_a_module_of_another_library_is_two_functions(library: str, text: str) -> None:
    """As the page says; each is one dense layer, which learns and whose logits are a product's."""
    pytest.importorskip(library)
    data = load("digits")
    names: dict[str, Any] = {"data": data, "jax": jax, "Model": models.Model}
    exec(text, names)
    result = amsfl.run(dataset=data, network=names["network"], method="fedavg", rounds=10, steps=20, lr=0.5)
    assert result.accuracy > 0.8
    task, x = result.parts.task, data.evals["holdout"][0]
    both = models.tensors(task.model, task.unravel(jnp.asarray(result.params))).values()
    bias, weight = sorted(both, key=np.ndim)
    expected = x @ (weight.T if len(weight) == 10 else weight) + bias
    np.testing.assert_allclose(
        task.model.apply(task.unravel(jnp.asarray(result.params)), x), expected, atol=1e-5
    )


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


@pytest.mark.parametrize("engine", ["loop", "jax"])
def test_a_network_may_have_a_loss_of_its_own(engine: str) -> None:
    """Half of the cross-entropy at twice the rate is the cross-entropy; scores tell the half, too."""
    data, plain = rows("cnn:4"), models.make("softmax", SPECS["cnn:4"], 2)
    halved = plain._replace(name="half", loss=lambda outputs, y: losses.cross_entropy(outputs, y) / 2)
    settings = {
        "dataset": data,
        "method": "fedavg",
        "clients": 2,
        "rounds": 3,
        "steps": 2,
        "partition": "iid",
    }
    settings |= {"engine": engine, "progress": False}
    one = amsfl.run(**settings, network=plain, lr=0.1)
    other = amsfl.run(**settings, network=halved, lr=0.2)
    np.testing.assert_allclose(other.params, one.params, atol=1e-6)
    scores = [each.rounds[-1].metrics["holdout"] for each in (one, other)]
    assert scores[0]["loss"] == pytest.approx(2 * scores[1]["loss"], rel=1e-5)
    assert scores[0]["accuracy"] == scores[1]["accuracy"]
    with pytest.raises(UserError, match="one number a row"):
        amsfl.run(**settings, network=plain._replace(loss=lambda outputs, y: outputs))
    with pytest.raises(UserError, match="loss of its own"):
        amsfl.run(**settings, network=halved, class_weights="balanced")


def test_an_optimizer_may_be_passed_named_or_refused(tmp_path: Path) -> None:
    """optax's own at its rate is the named one at that rate; the run's rate is then a factor on it."""
    optax = pytest.importorskip("optax")
    settings = {"data": "digits", "model": "softmax", "method": "fedavg", "rounds": 2, "steps": 3}
    settings |= {"engine": "loop", "progress": False, "details": ""}
    ours = amsfl.run(**settings, client_optimizer=optax.adamw(0.01), out=tmp_path / "run")
    named = amsfl.run(**settings, client_optimizer="adamw:0.01")
    other = amsfl.run(**settings, client_optimizer="adamw:0.5", lr=0.01)
    with pytest.raises(UserError, match="pass it in Python"):
        amsfl.resume(tmp_path / "run", rounds=3)
    np.testing.assert_allclose(ours.params, named.params, atol=1e-6)
    np.testing.assert_array_equal(other.params, named.params)
    for wrong in (
        "adamw",
        "kept",
        "adam:1e-3/0.9",
        "momentum:1",
        "nothing:0.1",
        "adamw:1e-3,lion:1e-4",
        optax.adamw,
        optax.lbfgs(),
        3,
    ):
        with pytest.raises(UserError, match=r"client[-_]optimizer"):
            amsfl.run(**settings, client_optimizer=wrong)
    with pytest.raises(UserError, match="sums of gradients"):
        amsfl.run(**settings | {"method": "scaffold"}, client_optimizer="adam:0.01")
