"""An ONNX graph of the layers: `features` [rows, features] in, `logits` and `probabilities` out.

Of numbers: `outputs`, standardised, and `prediction` in the user's own units, in double precision.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from amsfl.portable.compute import VARIANCE_FLOOR
from amsfl.portable.model import PortableModel
from amsfl.portable.network import LayerSpec

OPSET, IR = 17, 8  # old enough for the runtimes that people have
INNER = "amsfl/"  # before names of values within the graph


def graph(model: PortableModel) -> bytes:
    """The whole file."""
    net, value = Graph(), "features"
    inputs = [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["rows", len(model.features)])]
    for name, array in sorted(model.tensors.items()):  # the same file whatever order they were loaded in
        net.constants[INNER + name] = numpy_helper.from_array(array, INNER + name)
    kept, last = "", "logits" if model.classes else "outputs"
    for part in model.layers:
        if part.kind == "keep":
            kept = value
        elif part.kind == "add":
            value = net.add("Add", value, kept)
        else:
            value = KINDS[part.kind](net, part, value)
    net.nodes[-1].output[0] = last
    nodes, constants = net.nodes, list(net.constants.values())
    if model.classes:
        nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))
        made_of = {name: (TensorProto.FLOAT, len(model.classes)) for name in ("logits", "probabilities")}
    else:
        nodes += _own_units(model, constants)
        made_of = {"outputs": (TensorProto.FLOAT, 1), "prediction": (TensorProto.DOUBLE, 1)}
    described = helper.make_graph(
        nodes,
        "amsfl",
        inputs,
        [helper.make_tensor_value_info(name, kind, ["rows", many]) for name, (kind, many) in made_of.items()],
        constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    made_model = helper.make_model(described, opset_imports=opsets, producer_name="amsfl", ir_version=IR)
    helper.set_model_props(made_model, {"classes": "\n".join(model.classes)})
    return bytes(made_model.SerializeToString())


def _own_units(model: PortableModel, constants: list[Any]) -> list[Any]:
    shift, scale = model.amount or (0.0, 1.0)
    names = [INNER + name for name in ("shift", "scale", "wide", "scaled")]
    for name, value in zip(names, (shift, scale), strict=False):
        constants.append(numpy_helper.from_array(np.array(value, np.float64), name))
    return [
        helper.make_node("Cast", ["outputs"], [names[2]], to=TensorProto.DOUBLE),
        helper.make_node("Mul", [names[2], names[1]], [names[3]]),
        helper.make_node("Add", [names[3], names[0]], ["prediction"]),
    ]


class Graph:
    """Nodes and constants as they come; every value has a name of its own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        made = f"{INNER}value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [made], **attributes))
        return made

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        name = f"{INNER}constant{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.array(values, dtype), name)
        return name

    def reshaped(self, value: str, *shape: int) -> str:
        return self.add("Reshape", value, self.constant(shape))


def _tensors(part: LayerSpec) -> tuple[str, str]:
    """The names of its weight and its bias."""
    return f"{INNER}{part.name}.weight", f"{INNER}{part.name}.bias"


def _dense(net: Graph, part: LayerSpec, value: str) -> str:
    """As a product and a sum: Gemm takes plain rows only."""
    weight, bias = _tensors(part)
    return net.add("Add", net.add("MatMul", value, net.add("Transpose", weight, perm=[1, 0])), bias)


def _conv(net: Graph, part: LayerSpec, value: str) -> str:
    return net.add("Conv", value, *_tensors(part), strides=[part.stride] * 2, pads=[1] * 4)


def _tokens(net: Graph, part: LayerSpec, value: str) -> str:
    weight, bias = _tensors(part)
    numbers = net.add("Cast", value, to=TensorProto.INT64)
    return net.add("Add", net.add("Gather", weight, numbers, axis=0), bias)


def _attend(net: Graph, part: LayerSpec, value: str) -> str:
    wide = part.inputs // part.many
    turned = net.add("Transpose", net.reshaped(value, 0, 0, 3, part.many, wide), perm=[2, 0, 3, 1, 4])
    q, k, v = (net.add("Gather", turned, net.constant(place), axis=0) for place in range(3))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = net.add("Mul", scores, net.constant(wide**-0.5, np.float32))
    mixed = net.add("MatMul", net.add("Softmax", scaled, axis=-1), v)
    return net.reshaped(net.add("Transpose", mixed, perm=[0, 2, 1, 3]), 0, 0, part.inputs)


KINDS: dict[str, Callable[[Graph, LayerSpec, str], str]] = {
    "dense": _dense,
    "conv": _conv,
    "relu": lambda net, part, value: net.add("Relu", value),
    "image": lambda net, part, value: net.reshaped(value, -1, part.outputs, part.inputs, part.inputs),
    "flatten": lambda net, part, value: net.add("Flatten", value),
    "mean": lambda net, part, value: net.add("ReduceMean", value, axes=[1], keepdims=0),
    "level": lambda net, part, value: net.add(
        "LayerNormalization", value, *_tensors(part), axis=-1, epsilon=VARIANCE_FLOOR
    ),
    "tokens": _tokens,
    "attend": _attend,
}
