"""An ONNX graph of the layers: `features` [rows, features] in, `logits` and `probabilities` out.

Of numbers: `outputs`, standardised, and `prediction` in the user's own units, in double precision.
"""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from amsfl.portable.model import PortableModel
from amsfl.portable.network import Part

OPSET, IR = 17, 8  # old enough for the runtimes that people have


def graph(model: PortableModel) -> bytes:
    nodes: list[Any] = []
    constants = [numpy_helper.from_array(part, name) for name, part in model.tensors.items()]
    value, last = "features", "logits" if model.classes else "outputs"
    for place, part in enumerate(model.layers):
        made = last if place == len(model.layers) - 1 else f"value{place}"
        if part.kind == "image":
            shape = np.array([-1, 1, part.inputs, part.inputs], np.int64)
            constants.append(numpy_helper.from_array(shape, f"shape{place}"))
        nodes.append(_node(part, value, made, place))
        value = made
    if model.classes:
        nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))
        made_of = {name: (TensorProto.FLOAT, len(model.classes)) for name in ("logits", "probabilities")}
    else:
        nodes += _own_units(model, constants)
        made_of = {"outputs": (TensorProto.FLOAT, 1), "prediction": (TensorProto.DOUBLE, 1)}
    wide = len(model.features)
    described = helper.make_graph(
        nodes,
        "amsfl",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", wide])],
        [helper.make_tensor_value_info(name, kind, ["rows", many]) for name, (kind, many) in made_of.items()],
        constants,
    )
    made_model = helper.make_model(
        described, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="amsfl", ir_version=IR
    )
    helper.set_model_props(made_model, {"classes": "\n".join(model.classes)})
    return bytes(made_model.SerializeToString())


def _own_units(model: PortableModel, constants: list[Any]) -> list[Any]:
    shift, scale = model.amount or (0.0, 1.0)
    for name, value in (("shift", shift), ("scale", scale)):
        constants.append(numpy_helper.from_array(np.array(value, np.float64), name))
    return [
        helper.make_node("Cast", ["outputs"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Mul", ["wide", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["prediction"]),
    ]


def _node(part: Part, value: str, made: str, place: int) -> Any:
    if part.kind == "relu":
        return helper.make_node("Relu", [value], [made])
    if part.kind == "flatten":
        return helper.make_node("Flatten", [value], [made])
    if part.kind == "image":
        return helper.make_node("Reshape", [value, f"shape{place}"], [made])
    given = [value, f"{part.name}.weight", f"{part.name}.bias"]
    if part.kind == "conv":
        return helper.make_node("Conv", given, [made], strides=[part.stride] * 2, pads=[1, 1, 1, 1])
    return helper.make_node("Gemm", given, [made], transB=1)
