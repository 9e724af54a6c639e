"""Built-in models by name and sizes: each is a list of layers (portable/network.py), run by `layers.py`."""

from functools import partial
from math import isqrt

from amsfl.core import UserError, nearest
from amsfl.engines.dense import perceptron
from amsfl.engines.models import layers
from amsfl.engines.models.base import Model
from amsfl.portable import network
from amsfl.portable.network import LayerSpec

LAYERS, WIDTH, NUMBERS = 32, 100_000, 200_000_000  # the most that a model by name may have of each
CHANNELS = 16  # of cnn
WORDS = 8192  # tokens that a transformer knows by default
HEAD = 32  # numbers of one head of attention
EXAMPLES = {"mlp": "mlp:64-32", "cnn": "cnn:16", "transformer": "transformer:128-2"}


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
    model = _of(name, network.perceptron(sizes))._replace(apply=perceptron)
    return model if len(sizes) > 2 else model._replace(init=partial(layers.zeros, model.layers))


def _of(name: str, parts: tuple[LayerSpec, ...]) -> Model:
    many = layers.numbers(parts)
    if many > NUMBERS:
        raise UserError(f"Model {name!r} has {many:,} numbers, more than {NUMBERS:,}; make layers smaller.")
    return Model(name, partial(layers.init, parts), partial(layers.apply, parts), parts)


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
