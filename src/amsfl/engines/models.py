"""Models: a pair of functions init and apply; any pytree of arrays is a model's parameters."""

from collections.abc import Callable
from itertools import pairwise
from math import isqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amsfl.core import UserError, nearest
from amsfl.engines.dense import Layer, drawn, perceptron, product, turned
from amsfl.portable import network
from amsfl.portable.network import Part

Params = Any


class Model(NamedTuple):
    """init(key) -> parameters, any pytree of arrays; apply(parameters, rows) -> logits."""

    name: str
    init: Callable[[jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]
    layers: tuple[Part, ...] = ()  # the same as data, so that others can run it; () for a network of your own
    unit: float = 1.0  # what features are measured in: they are divided by it first


LAYERS, WIDTH, NUMBERS = 32, 100_000, 200_000_000  # the most that a model by name may have of each


class CNN(NamedTuple):
    """Two 3x3 convolutions with stride 1 and 2 over square one-channel images, then a dense layer.

    Kernels lie as [9 x inputs, outputs], place by place: a convolution is a product with a layer's patches.
    """

    first: Layer
    second: Layer
    last: tuple[Layer, ...]


ORDINARY = (0.1, 10.0)  # root mean squares of features that models can begin with


def unit(x: Any) -> float:
    """The power of ten in which features are neither large nor small; 1 where they are ordinary.

    Models begin as if features were about 1. Of features a hundred times too small a network sees only its
    own biases, and nothing gets it off that plateau; a hundred times too large, it is certain from the start.
    """
    flat = np.ravel(x)
    # by einsum, which casts a block at a time: squares would be a second copy of all rows
    root = float(np.sqrt(np.einsum("i,i->", flat, flat, dtype=np.float64) / flat.size)) if flat.size else 1.0
    if ORDINARY[0] <= root <= ORDINARY[1] or not 0 < root < np.inf:
        return 1.0
    return float(10.0 ** np.round(np.log10(root)))


def in_units(model: Model, of: float) -> Model:
    """The same model of features divided by `of`."""
    if of == 1:
        return model
    return model._replace(apply=lambda params, x: model.apply(params, x * (1 / of)), unit=of)


def make(spec: str, features: int, classes: int) -> Model:
    """`softmax`, `mlp` (64-32), `mlp:128-64` (hidden sizes) or `cnn`."""
    kind, _, sizes = spec.partition(":")
    if kind == "softmax" and not sizes:
        return mlp(spec, (features, classes))
    if kind == "mlp":
        layers = (features, *_hidden(spec, sizes or "64-32"), classes)
        many = sum((one + 1) * two for one, two in pairwise(layers))
        if many > NUMBERS:
            raise UserError(
                f"Model {spec!r} has {many:,} numbers, more than {NUMBERS:,}; make layers smaller."
            )
        return mlp(spec, layers)
    if kind == "cnn" and not sizes:
        return cnn(spec, features, classes)
    raise UserError(f"Unknown model {spec[:80]!r}{nearest(kind[:80], ['softmax', 'mlp', 'cnn'])}.")


def mlp(name: str, sizes: tuple[int, ...]) -> Model:
    """Dense layers with ReLU between; without hidden layers this is softmax regression.

    That one starts from zero: a convex problem needs no luck, and features a hundred times as large would
    make a random start a wrong and certain one.
    """
    pairs = list(pairwise(sizes))

    def init(key: jax.Array) -> tuple[Layer, ...]:
        keys = jax.random.split(key, len(pairs))
        layers = turned([drawn(*pair, key) for pair, key in zip(pairs, keys, strict=True)])
        return jax.tree.map(jnp.zeros_like, layers) if len(pairs) == 1 else layers

    return Model(name, init, perceptron, network.perceptron(sizes))


def cnn(name: str, features: int, classes: int, channels: int = 16) -> Model:
    side = isqrt(features)
    if side**2 != features:
        raise UserError(
            f"The cnn model needs square images, and {features} features are none; "
            "use --model mlp or --model softmax."
        )

    def init(key: jax.Array) -> CNN:
        one, two, three = jax.random.split(key, 3)
        flat = channels * ((side + 1) // 2) ** 2
        return CNN(
            _kernels(1, channels, one),
            _kernels(channels, channels, two),
            turned([drawn(flat, classes, three)]),
        )

    def apply(params: CNN, x: jax.Array) -> jax.Array:
        maps = jax.nn.relu(convolved(params.first, x.reshape(-1, side, side, 1), stride=1))
        maps = jax.nn.relu(convolved(params.second, maps, stride=2))
        return perceptron(params.last, maps.reshape(x.shape[0], -1))

    return Model(name, init, apply, network.convolutional(side, channels, classes))


def tensors(model: Model, params: Params) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """The parameters by name, in the shapes that `amsfl.portable.network` describes; by path for others."""
    if not model.layers:
        leaves = jax.tree_util.tree_flatten_with_path(params)[0]
        return {jax.tree_util.keystr(path).strip("."): np.asarray(leaf) for path, leaf in leaves}
    layers = _images(params) if isinstance(params, CNN) else [(w.T, bias) for w, bias in turned(params)]
    layers[0] = (layers[0][0] / model.unit, layers[0][1])  # who runs it elsewhere takes features as they are
    names = [part.name for part in model.layers if part.name]
    return {
        f"{name}.{kind}": np.asarray(part)
        for name, layer in zip(names, layers, strict=True)
        for kind, part in zip(("weight", "bias"), layer, strict=True)
    }


def _images(params: CNN) -> list[tuple[Any, Any]]:
    """Channels before height and width, as others have them: here they come last."""
    kernels = [
        (weight.reshape(3, 3, -1, weight.shape[-1]).transpose(3, 2, 0, 1), bias)
        for weight, bias in (params.first, params.second)
    ]
    ((weight, bias),) = turned(params.last)
    channels = params.second.bias.size
    side = isqrt(weight.shape[0] // channels)
    dense = weight.T.reshape(-1, side, side, channels).transpose(0, 3, 1, 2)
    return [*kernels, (dense.reshape(len(bias), -1), bias)]


def from_module(name: str, build: Callable[[jax.Array], Any]) -> Model:
    """A Model from an equinox module's constructor: its arrays are the parameters."""
    import equinox as eqx  # whoever has a module has equinox; nothing else here needs it

    def is_array(leaf: Any) -> bool:
        return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)

    _, static = eqx.partition(eqx.filter_eval_shape(build, jax.random.key(0)), is_array)

    def init(key: jax.Array) -> Params:
        return eqx.partition(build(key), eqx.is_array)[0]

    def apply(params: Params, x: jax.Array) -> jax.Array:
        module: Any = eqx.combine(params, static)
        logits: jax.Array = module(x)
        return logits

    return Model(name, init, apply)


def _kernels(inputs: int, outputs: int, key: jax.Array) -> Layer:
    """3x3 kernels and biases, uniform within the inverse root of what a kernel sees."""
    scale = (9 * inputs) ** -0.5
    one, two = jax.random.split(key)
    return Layer(
        jax.random.uniform(one, (9 * inputs, outputs), minval=-scale, maxval=scale),
        jax.random.uniform(two, (outputs,), minval=-scale, maxval=scale),
    )


def convolved(layer: Layer, maps: jax.Array, stride: int) -> jax.Array:
    """[rows, height, width, channels] -> the same with other channels, edges padded by one.

    As one product of all patches with the kernels. XLA's own convolutions are slow where every client has
    kernels of its own: a client step of the built-in cnn on 28x28 images took ten times as long.
    """
    _, height, width, _ = maps.shape
    padded = jnp.pad(maps, ((0, 0), (1, 1), (1, 1), (0, 0)))
    views = [padded[:, i : i + height : stride, j : j + width : stride] for i in range(3) for j in range(3)]
    patches = jnp.concatenate(views, axis=-1)
    flat = patches.reshape(-1, patches.shape[-1])
    found: jax.Array = product(flat, layer.weight, False) + layer.bias
    return found.reshape(*patches.shape[:3], -1)


def _hidden(spec: str, sizes: str) -> tuple[int, ...]:
    if len(sizes) > 7 * LAYERS or sizes.count("-") >= LAYERS:
        raise UserError(f"Model {spec[:80]!r} is too long; there may be {LAYERS} hidden layers.")
    parts = sizes.split("-")
    if not all(part.isascii() and part.isdigit() and 0 < int(part) <= WIDTH for part in parts):
        raise UserError(
            f"Model {spec!r}: hidden sizes are numbers from 1 to {WIDTH:,} joined by '-', as in mlp:64-32."
        )
    return tuple(int(part) for part in parts)
