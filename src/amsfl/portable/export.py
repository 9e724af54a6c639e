"""A model for other libraries: a folder with the model, its description, and what loads it there.

torch: model.py makes the network from the other files. onnx: a graph of `features` [rows, features] to
`logits` and `probabilities`; of numbers to standardised `outputs` and the `prediction` in the user's own
units, in double precision. sklearn: model.py, whose load() gives an estimator of raw rows.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.core import UserError
from amsfl.core.errors import need
from amsfl.portable.model import PortableModel, folder_files
from amsfl.portable.network import VARIANCE_FLOOR, LayerSpec
from amsfl.record import publish

OPSET, IR = 17, 8  # of ONNX: old enough for the runtimes that people have
INNER = "amsfl/"  # before names of values within the graph


def export(model: PortableModel, to: str, where: Path) -> list[str]:
    """Write the folder; the names of its files."""
    if to not in FORMATS:
        raise UserError(f"No library {to!r} is known here; say --to {', '.join(FORMATS)}.")
    if not model.layers:
        raise UserError(
            "This model is a network of the user's own, which amsfl cannot write for others; its numbers "
            "are in model.safetensors, by name."
        )
    made = folder_files(model) | FORMATS[to](model)
    publish(where, made)
    return sorted(made)


class Graph:
    """Nodes and constants as they come; every value has a name of its own."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: str, made: str = "", **attributes: Any) -> str:
        made = made or f"{INNER}value{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [made], **attributes))
        return made

    def constant(self, values: Any, dtype: Any = np.int64, name: str = "") -> str:
        name = INNER + (name or f"constant{len(self.constants)}")
        self.constants[name] = self.onnx.numpy_helper.from_array(np.array(values, dtype), name)
        return name

    def reshaped(self, value: str, *shape: int) -> str:
        return self.add("Reshape", value, self.constant(shape))

    def file(self, model: PortableModel) -> bytes:
        """The whole file."""
        types, helper = self.onnx.TensorProto, self.onnx.helper
        for name, array in sorted(model.tensors.items()):  # the same file whatever order they were loaded in
            self.constant(array, array.dtype, name)
        kept = value = "features"
        for part in model.layers:
            if part.kind == "keep":
                kept = value
            elif part.kind == "add":
                value = self.add("Add", value, kept)
            else:
                value = NODES[part.kind](self, part, value)
        if model.classes:
            self.add("Softmax", self.add("Identity", value, made="logits"), made="probabilities", axis=1)
            made_of = {name: (types.FLOAT, len(model.classes)) for name in ("logits", "probabilities")}
        else:
            wide = self.add("Cast", self.add("Identity", value, made="outputs"), to=types.DOUBLE)
            shift, scale = (self.constant(each, np.float64) for each in model.amount or (0.0, 1.0))
            self.add("Add", self.add("Mul", wide, scale), shift, made="prediction")
            made_of = {"outputs": (types.FLOAT, 1), "prediction": (types.DOUBLE, 1)}
        features = helper.make_tensor_value_info("features", types.FLOAT, ["rows", len(model.features)])
        outputs = [
            helper.make_tensor_value_info(name, kind, ["rows", many])
            for name, (kind, many) in made_of.items()
        ]
        graph = helper.make_graph(self.nodes, "amsfl", [features], outputs, list(self.constants.values()))
        opsets = [helper.make_opsetid("", OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, producer_name="amsfl", ir_version=IR)
        helper.set_model_props(made, {"classes": "\n".join(model.classes)})
        return bytes(made.SerializeToString())


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
    numbers = net.add("Cast", value, to=net.onnx.TensorProto.INT64)
    return net.add("Add", net.add("Gather", weight, numbers, axis=0), bias)


def _attend(net: Graph, part: LayerSpec, value: str) -> str:
    wide = part.inputs // part.many
    turned = net.add("Transpose", net.reshaped(value, 0, 0, 3, part.many, wide), perm=[2, 0, 3, 1, 4])
    q, k, v = (net.add("Gather", turned, net.constant(place), axis=0) for place in range(3))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = net.add("Mul", scores, net.constant(wide**-0.5, np.float32))
    mixed = net.add("MatMul", net.add("Softmax", scaled, axis=-1), v)
    return net.reshaped(net.add("Transpose", mixed, perm=[0, 2, 1, 3]), 0, 0, part.inputs)


NODES: dict[str, Callable[[Graph, LayerSpec, str], str]] = {
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


def _loaded_by(script: str) -> Callable[[PortableModel], dict[str, bytes]]:
    """model.py reads the folder's own files: what torch.save or joblib write would be a pickle."""
    return lambda model: {"model.py": Path(__file__).with_name(script).read_bytes()}


FORMATS: dict[str, Callable[[PortableModel], dict[str, bytes]]] = {
    "torch": _loaded_by("torch_model.py"),
    "onnx": lambda model: {"model.onnx": Graph(need("onnx", "Writing ONNX")).file(model)},
    "sklearn": _loaded_by("sklearn_model.py"),
}
