"""An ONNX graph of the layers: `features` [rows, features] in, `logits` and `probabilities` out."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from amsfl.portable.model import PortableModel
from amsfl.portable.network import Part

OPSET, IR = 17, 8  # old enough for the runtimes that people have


def graph(model: PortableModel) -> bytes:
    nodes: list[Any] = []
    constants = [numpy_helper.from_array(part, name) for name, part in model.tensors.items()]
    value = "features"
    for place, part in enumerate(model.layers):
        made = "logits" if place == len(model.layers) - 1 else f"value{place}"
        if part.kind == "image":
            shape = np.array([-1, 1, part.inputs, part.inputs], np.int64)
            constants.append(numpy_helper.from_array(shape, f"shape{place}"))
        nodes.append(_node(part, value, made, place))
        value = made
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))
    wide, many = len(model.features), len(model.classes)
    described = helper.make_graph(
        nodes,
        "amsfl",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", wide])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", many])
            for name in ("logits", "probabilities")
        ],
        constants,
    )
    made_model = helper.make_model(
        described, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="amsfl", ir_version=IR
    )
    helper.set_model_props(made_model, {"classes": "\n".join(model.classes)})
    return bytes(made_model.SerializeToString())


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
