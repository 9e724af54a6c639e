"""A network as data: a list of layers and named tensors. Whoever reads the list can compute the logits.

Every built-in model is such a list. The engines run it (engines/models), numpy does (`logits`), torch and
ONNX get it in a file. Tensors have the names and shapes of torch's modules: dense weights [outputs, inputs],
kernels [outputs, inputs, side, side], biases [outputs]; normalisations have a scale and a shift, tokens a
vector for each and one for each place.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError

Array = np.ndarray[Any, np.dtype[Any]]
Tensors = dict[str, Array]

KERNEL = 3  # the side of a convolution's
VARIANCE_FLOOR = 1e-5  # what is added to a variance before its root is taken, as in torch


class LayerSpec(NamedTuple):
    """One layer, and what its kind makes of the numbers.

    dense: of the last axis. conv: 3x3, padded by one. image: rows to [rows, outputs, inputs, inputs].
    flatten: maps to rows. tokens: numbers of words, `many` a row, to [rows, many, outputs].
    attend: [rows, places, 3 x inputs] (queries, keys, values) to [rows, places, inputs], in `many` heads.
    level: each place normalised. mean: of all places. keep: what the next `add` adds.
    """

    kind: str
    name: str = ""  # of its tensors: NAME.weight and NAME.bias
    inputs: int = 0
    outputs: int = 0
    stride: int = 1
    many: int = 0


class Layer(NamedTuple):
    """A layer's numbers as engines have them: numpy's arrays, or jax's."""

    weight: Any
    bias: Any


Layers = tuple[Layer, ...]


def flips(count: int) -> list[bool]:
    """Which of a network's dense layers store W as [outputs, inputs]: all but the first of several.

    So d (the smaller side) is the one to turn, and the input's gradient d W' needs no turning. Nobody asks
    for the gradient of a first layer's input.
    """
    return [count == 1 or place > 0 for place in range(count)]


RELU, KEEP, ADD = (LayerSpec(kind) for kind in ("relu", "keep", "add"))


def perceptron(sizes: tuple[int, ...]) -> tuple[LayerSpec, ...]:
    """Dense layers with ReLU between, named dense1, dense2, ..."""
    parts: list[LayerSpec] = []
    for place, (inputs, outputs) in enumerate(itertools.pairwise(sizes), 1):
        parts += [LayerSpec("dense", f"dense{place}", inputs, outputs), RELU]
    return tuple(parts[:-1])


def convolutional(side: int, colours: int, channels: int, classes: int) -> tuple[LayerSpec, ...]:
    """Two convolutions with stride 1 and 2, then a dense layer."""
    flat = channels * ((side + 1) // 2) ** 2
    return (
        LayerSpec("image", inputs=side, outputs=colours),
        LayerSpec("conv", "conv1", colours, channels, 1),
        RELU,
        LayerSpec("conv", "conv2", channels, channels, 2),
        RELU,
        LayerSpec("flatten", inputs=channels),
        LayerSpec("dense", "dense1", flat, classes),
    )


def transformer(
    places: int, words: int, width: int, blocks: int, heads: int, classes: int
) -> tuple[LayerSpec, ...]:
    """Encoder blocks (attention, then two dense layers, normalised before each) over tokens; their mean."""
    parts = [LayerSpec("tokens", "tokens", words, width, many=places)]
    for block in range(1, blocks + 1):
        name = f"block{block}"
        parts += [
            KEEP,
            LayerSpec("level", f"{name}_level1", width),
            LayerSpec("dense", f"{name}_qkv", width, 3 * width),
            LayerSpec("attend", inputs=width, many=heads),
            LayerSpec("dense", f"{name}_out", width, width),
            *(ADD, KEEP),
            LayerSpec("level", f"{name}_level2", width),
            LayerSpec("dense", f"{name}_up", width, 4 * width),
            RELU,
            LayerSpec("dense", f"{name}_down", 4 * width, width),
            ADD,
        ]
    last = [
        LayerSpec("level", "level", width),
        LayerSpec("mean"),
        LayerSpec("dense", "dense1", width, classes),
    ]
    return (*parts, *last)


def shapes(parts: tuple[LayerSpec, ...]) -> dict[str, tuple[int, ...]]:
    """The tensors that these layers need."""
    tensor_shapes: dict[str, tuple[int, ...]] = {}
    for part in parts:
        if part.name:
            weight, bias = _SHAPES[part.kind](part)
            tensor_shapes |= {f"{part.name}.weight": weight, f"{part.name}.bias": bias}
    return tensor_shapes


_SHAPES: dict[str, Any] = {
    "dense": lambda part: ((part.outputs, part.inputs), (part.outputs,)),
    "conv": lambda part: ((part.outputs, part.inputs, KERNEL, KERNEL), (part.outputs,)),
    "level": lambda part: ((part.inputs,), (part.inputs,)),
    "tokens": lambda part: ((part.inputs, part.outputs), (part.many, part.outputs)),
}


def count_operations(parts: tuple[LayerSpec, ...]) -> int:
    """Multiplications and additions of one row's forward pass; 0 where the list is empty."""
    total, side, places = 0, 0, 1
    for part in parts:
        if part.kind == "image":
            side = part.inputs
        elif part.kind == "tokens":
            places = part.many
        elif part.kind == "mean":
            places = 1
        elif part.kind == "conv":
            side = -(-side // part.stride)
            total += 2 * KERNEL**2 * part.inputs * part.outputs * side**2
        elif part.kind == "attend":
            total += 4 * part.inputs * places**2
        elif part.kind == "dense":
            total += 2 * part.inputs * part.outputs * places
    return total


def vocabulary_size(parts: tuple[LayerSpec, ...]) -> int:
    """How many different tokens a row may hold; 0 for networks of plain features."""
    return parts[0].inputs if parts and parts[0].kind == "tokens" else 0


def check_rows(parts: tuple[LayerSpec, ...], x: Array) -> None:
    """Refuse rows that are no tokens where the network takes tokens: an index would be cut off in silence."""
    most = vocabulary_size(parts)
    if not most or not x.size:
        return
    if not np.isfinite(x).all() or x.min() < 0 or (x != np.floor(x)).any():
        raise UserError(
            "The transformer takes token numbers, whole and from 0 up, and these features are others; "
            "use --model mlp, or pass rows of tokens as amsfl.run(dataset=...)."
        )
    if x.max() >= most:
        raise UserError(
            f"A row holds token {int(x.max()):,}, and the model knows {most:,}; make room for it by "
            f"--model transformer:WIDTH-BLOCKS-{int(x.max()) + 1}."
        )


def logits(parts: tuple[LayerSpec, ...], tensors: Tensors, x: Array) -> Array:
    """[rows, classes]: in float64 if the rows are so."""
    x = x if x.dtype == np.float64 else np.asarray(x, np.float32)
    check_rows(parts, x)
    kept, none = x, np.zeros(0, x.dtype)
    for part in parts:
        if part.kind == "keep":
            kept = x
        elif part.kind == "add":
            x = x + kept
        else:
            weight, bias = (tensors.get(f"{part.name}.{kind}", none) for kind in ("weight", "bias"))
            x = KINDS[part.kind](part, x, weight, bias)
    return x


def _convolved(part: LayerSpec, maps: Array, weight: Array, bias: Array) -> Array:
    padded = np.pad(maps, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(2, 3))
    windows = windows[:, :, :: part.stride, :: part.stride]
    return np.asarray(np.einsum("ncijkl,ockl->noij", windows, weight, optimize=True) + bias[:, None, None])


def _normalised(x: Array) -> Array:
    """Mean 0 and variance 1 along the last axis."""
    away = x - x.mean(-1, keepdims=True)
    return np.asarray(away / np.sqrt((away * away).mean(-1, keepdims=True) + x.dtype.type(VARIANCE_FLOOR)))


def _attended(part: LayerSpec, x: Array, *_: Array) -> Array:
    rows, places, _width = x.shape
    q, k, v = x.reshape(rows, places, 3, part.many, -1).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / x.dtype.type(q.shape[-1] ** 0.5)
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = chances / chances.sum(-1, keepdims=True) @ v
    return np.asarray(mixed.transpose(0, 2, 1, 3).reshape(rows, places, -1))


KINDS: dict[str, Callable[[LayerSpec, Array, Array, Array], Array]] = {
    "dense": lambda part, x, weight, bias: x @ weight.T + bias,
    "conv": _convolved,
    "relu": lambda part, x, *_: np.maximum(x, 0),
    "image": lambda part, x, *_: x.reshape(len(x), part.outputs, part.inputs, part.inputs),
    "flatten": lambda part, x, *_: x.reshape(len(x), -1),
    "mean": lambda part, x, *_: x.mean(1),
    "level": lambda part, x, weight, bias: _normalised(x) * weight + bias,
    "tokens": lambda part, x, weight, bias: (weight[x.astype(np.int64)] + bias).astype(x.dtype),
    "attend": _attended,
}
