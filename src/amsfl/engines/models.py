"""Models: a pair of functions init and apply; any pytree of arrays is a model's parameters.

Built-in ones by name and sizes, each a list of layers (portable/network.py) that `layers.py` runs. Modules of
other libraries: docs/models.md.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError, nearest
from amsfl.core.records import Array
from amsfl.engines import devices
from amsfl.portable import network
from amsfl.portable.network import KERNEL, Layer, Layers, LayerSpec, Tensors, flips, shapes

Params = Any


ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = np.uint32(0x1BD11BDA)


class Model(NamedTuple):
    """init(key) -> parameters, any pytree of arrays; apply(parameters, rows) -> logits."""

    name: str
    init: Callable[[Array], Params]
    apply: Callable[[Params, Array], Array]
    # the same as data, so that others can run it; () for a network of your own
    layers: tuple[LayerSpec, ...] = ()
    unit: float = 1.0  # what features are measured in: they are divided by it first
    # of a network of your own: loss(what apply gives, labels) -> the loss of every row
    loss: Callable[[Any, Any], Array] | None = None


ORDINARY = (0.1, 10.0)  # root mean squares of features that models can begin with


def input_scale(x: Array) -> float:
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


@devices.kept
def scale_inputs(model: Model, of: float) -> Model:
    """The same model of features divided by `of`."""
    if of == 1:
        return model
    return model._replace(apply=lambda params, x: model.apply(params, x * (1 / of)), unit=of)


def tensors(model: Model, params: Params) -> dict[str, Array]:
    """The parameters by name, in the shapes that `amsfl.portable.network` describes; by path for others."""
    if not model.layers:
        import jax

        leaves = jax.tree_util.tree_flatten_with_path(params)[0]
        return {jax.tree_util.keystr(path).strip("."): np.asarray(leaf) for path, leaf in leaves}
    named = _stored(model.layers, params)
    first = next(iter(named))  # elsewhere the model gets features as they are
    return {name: np.asarray(part / model.unit if name == first else part) for name, part in named.items()}


def _stored(parts: tuple[LayerSpec, ...], params: Layers) -> Tensors:
    """The tensors by name in the shapes that others have them in."""
    tensors: Tensors = {}
    named = [part for part in parts if part.name]
    channels = sum(part.inputs for part in parts if part.kind == "flatten")
    for part, flip, (weight, bias) in zip(named, flips(len(named)), params, strict=True):
        if part.kind == "dense":
            weight = weight if flip else weight.T
            if channels:  # of the first dense layer after maps: here channels come last
                side = isqrt(part.inputs // channels)
                weight = weight.reshape(-1, side, side, channels).transpose(0, 3, 1, 2)
                weight, channels = weight.reshape(part.outputs, part.inputs), 0
        elif part.kind == "conv":
            weight = weight.reshape(KERNEL, KERNEL, part.inputs, part.outputs).transpose(3, 2, 0, 1)
        tensors |= {f"{part.name}.weight": weight, f"{part.name}.bias": bias}
    return tensors


LAYERS, WIDTH, NUMBERS = 32, 100_000, 200_000_000  # the most that a model by name may have of each
CHANNELS = 16  # of cnn
WORDS = 8192  # tokens that a transformer knows by default
HEAD = 32  # numbers of one head of attention
EXAMPLES = {"mlp": "mlp:64-32", "cnn": "cnn:16", "transformer": "transformer:128-2"}


@devices.kept
def make(spec: str, features: int, classes: int) -> Model:
    """A model by name and sizes, each of which may be left out from the end.

    `softmax`; `mlp:64-32`, hidden sizes; `cnn:16`, channels; `transformer:128-2-8192`, width, blocks and how
    many tokens there are.
    """
    kind, _, sizes_text = spec.partition(":")
    if kind == "softmax" and not sizes_text:
        return mlp(spec, (features, classes))
    if kind == "mlp":
        return mlp(spec, (features, *_sizes(spec, sizes_text or "64-32"), classes))
    if kind == "cnn":
        (channels,) = _filled(spec, sizes_text, (CHANNELS,))
        return _of(spec, network.convolutional(*_image(features), channels, classes))
    if kind == "transformer":
        width, blocks, words = _filled(spec, sizes_text, (128, 2, WORDS))
        heads = width // HEAD if width % HEAD == 0 else 1
        return _of(spec, network.transformer(features, words, width, blocks, heads, classes))
    raise UserError(f"Unknown model {spec[:80]!r}{nearest(kind[:80], ['softmax', *EXAMPLES])}.")


def mlp(name: str, sizes: tuple[int, ...]) -> Model:
    """Dense layers with ReLU between; without hidden layers this is softmax regression.

    That one starts from zero: a convex problem needs no luck, and features a hundred times as large would
    make a random start a wrong and certain one.
    """
    model = _of(name, network.perceptron(sizes))
    return model if len(sizes) > 2 else model._replace(init=partial(zeros, model.layers))


def _of(name: str, parts: tuple[LayerSpec, ...]) -> Model:
    many = numbers(parts)
    if many > NUMBERS:
        raise UserError(f"Model {name!r} has {many:,} numbers, more than {NUMBERS:,}; make layers smaller.")
    return Model(name, partial(init, parts), partial(apply, parts), parts)


def numbers(parts: tuple[LayerSpec, ...]) -> int:
    return sum(prod(shape) for shape in shapes(parts).values())


def stored_shapes(parts: tuple[LayerSpec, ...]) -> list[tuple[int, ...]]:
    """Of a flat vector's weights and biases in turn, as they lie in it."""
    named, found = [part for part in parts if part.name], list[tuple[int, ...]]()
    sizes = iter(shapes(parts).values())
    for part, flip, weight, bias in zip(named, flips(len(named)), sizes, sizes, strict=True):
        if part.kind == "conv":
            weight = (KERNEL**2 * part.inputs, part.outputs)
        found += [weight[::-1] if part.kind == "dense" and not flip else weight, bias]
    return found


def layers_of(parts: tuple[LayerSpec, ...], vector: Array) -> Layers:
    """A flat vector's layers."""
    arrays = iter(cut(stored_shapes(parts), vector))
    return tuple(Layer(weight, bias) for weight, bias in zip(arrays, arrays, strict=True))


def cut(sizes: Sequence[tuple[int, ...]], vector: Array) -> list[Array]:
    """A flat vector's arrays of these shapes, one after another: views of numpy's."""
    ends = itertools.accumulate(map(prod, sizes))
    return [vector[end - prod(size) : end].reshape(size) for size, end in zip(sizes, ends, strict=True)]


def zeros(parts: tuple[LayerSpec, ...], key: Array) -> Layers:
    return layers_of(parts, np.zeros(numbers(parts), np.float32))


def init(parts: tuple[LayerSpec, ...], key: Array) -> Layers:
    """What jax's generator draws of a key, or of its two words, where nothing has to be compiled for it."""
    if not isinstance(key, np.ndarray):
        import jax

        key = jax.random.key_data(key)
    named = [part for part in parts if part.name]
    keys = zip(named, flips(len(named)), split(key, len(named)), strict=True)
    return tuple(_first_layer(part, flip, each) for part, flip, each in keys)


def _first_layer(part: LayerSpec, flip: bool, key: Array) -> Layer:
    zero = np.zeros(part.outputs, np.float32)
    if part.kind == "dense":
        weight = uniform(key, (part.inputs, part.outputs), part.inputs**-0.5)
        return Layer(weight.T if flip else weight, zero)
    one, two = split(key, 2)
    if part.kind == "conv":  # within the inverse root of what a kernel sees
        taps = KERNEL**2 * part.inputs
        return Layer(
            *(
                uniform(each, size, taps**-0.5)
                for each, size in ((one, (taps, part.outputs)), (two, (part.outputs,)))
            )
        )
    if part.kind == "tokens":
        return Layer(
            normal(one, (part.inputs, part.outputs)) / 10, normal(two, (part.many, part.outputs)) / 10
        )
    return Layer(np.ones(part.inputs, np.float32), np.zeros(part.inputs, np.float32))


def apply(parts: tuple[LayerSpec, ...], params: Layers, x: Array) -> Array:
    from amsfl.engines import layers  # and with them jax, which dense layers on numpy do without

    return layers.apply(parts, params, x)


def _image(features: int) -> tuple[int, int]:
    """The side and the colours of an image of so many numbers."""
    for colours in (1, 3):
        side = isqrt(features // colours)
        if colours * side**2 == features:
            return side, colours
    raise UserError(
        f"The cnn model needs square images of one colour or three, and {features} features are none; "
        "use --model mlp or --model softmax."
    )


def _filled(spec: str, sizes_text: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes that were given, and the usual ones for the rest."""
    sizes = _sizes(spec, sizes_text) if sizes_text else ()
    kind = spec.partition(":")[0]
    if len(sizes) > len(usual):
        raise UserError(f"Model {spec!r} has {len(sizes)} sizes, and {kind} takes {len(usual)} at most.")
    chosen = (*sizes, *usual[len(sizes) :])
    if len(chosen) > 1 and chosen[1] > LAYERS:
        raise UserError(f"Model {spec!r} has {chosen[1]:,} blocks; there may be {LAYERS}.")
    return chosen


def _sizes(spec: str, sizes: str) -> tuple[int, ...]:
    if len(sizes) > 7 * LAYERS or sizes.count("-") >= LAYERS:
        raise UserError(f"Model {spec[:80]!r} is too long; there may be {LAYERS} hidden layers.")
    parts = sizes.split("-")
    if not all(part.isascii() and part.isdigit() and 0 < int(part) <= WIDTH for part in parts):
        kind = spec.partition(":")[0]
        what = "hidden sizes" if kind == "mlp" else "sizes"
        raise UserError(
            f"Model {spec!r}: {what} are numbers from 1 to {WIDTH:,} joined by '-', as in {EXAMPLES[kind]}."
        )
    return tuple(int(part) for part in parts)


def is_dense(parts: tuple[LayerSpec, ...]) -> bool:
    """Whether a network is dense layers with ReLU between."""
    return bool(parts) and all(part.kind in ("dense", "relu") for part in parts)


def split(key: Array, count: int) -> list[Array]:
    """As many keys of one."""
    place = np.arange(count, dtype=np.uint32)
    return list(zip(*threefry(key, np.zeros_like(place), place), strict=True))


def uniform(key: Array, size: tuple[int, ...], bound: float) -> Array:
    """Float32 numbers in [-bound, bound)."""
    place = np.arange(prod(size), dtype=np.uint32)
    high, low = threefry(key, np.zeros_like(place), place)
    one = np.uint32(0x3F800000)  # with other bits behind it: a number in [1, 2)
    unit = ((high ^ low) >> np.uint32(9) | one).view(np.float32) - np.float32(1)
    return (unit * np.float32(2 * bound) - np.float32(bound)).reshape(size)


def normal(key: Array, size: tuple[int, ...]) -> Array:
    unit = uniform(key, size, 1 - 2**-24)
    if isinstance(unit, np.ndarray):
        from scipy.special import erfinv
    else:
        from jax.scipy.special import erfinv
    return np.float32(2**0.5) * erfinv(unit)


def threefry(key: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Threefry-2x32 (Salmon and others 2011), of 20 turns."""
    keys = key[0], key[1], key[0] ^ key[1] ^ PARITY
    with np.errstate(over="ignore"):  # words wrap around on purpose
        x, y = x + keys[0], y + keys[1]
        for turn in range(1, 6):
            for by in ROTATIONS[(turn - 1) % 2]:
                x = x + y
                y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
            x, y = x + keys[turn % 3], y + keys[(turn + 1) % 3] + np.uint32(turn)
    return x, y
