"""A network as data: a list of layers and named tensors. Whoever reads the list can compute the logits.

Tensors have the names and shapes of torch's modules: dense weights [outputs, inputs], kernels [outputs,
inputs, 3, 3], biases [outputs].
"""

import itertools
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Tensors = dict[str, Array]


class Part(NamedTuple):
    """One layer. dense: inputs, outputs; conv (3x3, padded by one): and stride; image: inputs is its side."""

    kind: str  # dense, conv, relu, image (rows to [rows, 1, side, side]), flatten
    name: str = ""  # of its tensors: NAME.weight and NAME.bias
    inputs: int = 0
    outputs: int = 0
    stride: int = 1


def perceptron(sizes: tuple[int, ...], first: int = 1) -> tuple[Part, ...]:
    """Dense layers with ReLU between, named dense1, dense2, ..."""
    parts: list[Part] = []
    for place, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        parts += [Part("relu")] if place else []
        parts.append(Part("dense", f"dense{place + first}", inputs, outputs))
    return tuple(parts)


def convolutional(side: int, channels: int, classes: int) -> tuple[Part, ...]:
    """Two convolutions with stride 1 and 2, then a dense layer."""
    flat = channels * ((side + 1) // 2) ** 2
    return (
        Part("image", inputs=side),
        Part("conv", "conv1", 1, channels, 1),
        Part("relu"),
        Part("conv", "conv2", channels, channels, 2),
        Part("relu"),
        Part("flatten"),
        Part("dense", "dense1", flat, classes),
    )


def shapes(parts: tuple[Part, ...]) -> dict[str, tuple[int, ...]]:
    """The tensors that these layers need."""
    found: dict[str, tuple[int, ...]] = {}
    for part in parts:
        if part.name:
            kernel = (3, 3) if part.kind == "conv" else ()
            found[f"{part.name}.weight"] = (part.outputs, part.inputs, *kernel)
            found[f"{part.name}.bias"] = (part.outputs,)
    return found


def logits(parts: tuple[Part, ...], tensors: Tensors, x: Array) -> Array:
    """In numpy, for whoever has nothing else, [rows, classes]: in float64 if the rows are so."""
    x = x if x.dtype == np.float64 else np.asarray(x, np.float32)
    for part in parts:
        weight, bias = tensors.get(f"{part.name}.weight"), tensors.get(f"{part.name}.bias")
        if part.kind == "relu":
            x = np.maximum(x, 0)
        elif part.kind == "image":
            x = x.reshape(len(x), 1, part.inputs, part.inputs)
        elif part.kind == "flatten":
            x = x.reshape(len(x), -1)
        elif weight is not None and bias is not None:
            x = x @ weight.T + bias if part.kind == "dense" else _convolved(x, weight, bias, part.stride)
    return x


def _convolved(maps: Array, weight: Array, bias: Array, stride: int) -> Array:
    padded = np.pad(maps, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.asarray(np.einsum("ncijkl,ockl->noij", windows, weight, optimize=True) + bias[:, None, None])
