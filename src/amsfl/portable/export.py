"""A model for other libraries: a folder with the model, its description, and a short file that loads it."""

from collections.abc import Callable
from keyword import iskeyword
from pathlib import Path

from amsfl.core import UserError, nearest
from amsfl.core.errors import need
from amsfl.portable.model import PortableModel, folder_files
from amsfl.record import publish

TORCH = '''"""The network in torch, its parameters from model.safetensors beside this file.

    from model import load
    {outputs} = load()(features)  # float32 [rows, {features}]: amsfl.portable.load(RUN).encode(rows)
"""

from pathlib import Path

import torch
from safetensors.torch import load_file

{constants}
{helpers}

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
{modules}

    def forward(self, x):
{forward}
        return {returned}


def load(path=Path(__file__).with_name("model.safetensors")):
    network = Network()
    network.load_state_dict(load_file(path))
    return network.eval()
'''

SKLEARN = '''"""The model as a scikit-learn {kind}; needs amsfl, numpy and scikit-learn.

    from model import load
    load().predict("new.csv")  # or raw columns: a DataFrame or an array
"""

from pathlib import Path

from amsfl.portable.estimator import {name}


def load(folder=Path(__file__).parent):
    return {name}(folder=str(folder)).fit()
'''


def export(model: PortableModel, to: str, where: Path) -> list[str]:
    """Write the folder; the names of its files."""
    if to not in FORMATS:
        raise UserError(f"Unknown format {to!r}{nearest(to, FORMATS)}.")
    if not model.layers:
        raise UserError(
            "This model is a network of the user's own, which amsfl cannot write for others; its numbers "
            "are in model.safetensors, by name."
        )
    for layer in model.layers:  # names become lines of Python
        if layer.name and not (layer.name.isidentifier() and not iskeyword(layer.name)):
            raise UserError(f"The model has a layer {layer.name!r}, which is no name of a variable.")
    made = folder_files(model) | FORMATS[to](model)
    publish(where, made)
    return sorted(made)


def torch_files(model: PortableModel) -> dict[str, bytes]:
    """model.py: a module whose state_dict is model.safetensors. torch.save would be a pickle."""
    from amsfl.portable.to_torch import called, helpers, module

    shift, scale = model.amount or (0.0, 1.0)
    constants, returned = f"CLASSES = {model.classes!r}", "x"
    if not model.classes:  # in double precision: a shift may be far larger than what it is added to
        constants, returned = f"SHIFT, SCALE = {shift!r}, {scale!r}", "x[:, 0].double() * SCALE + SHIFT"
    code = TORCH.format(
        features=len(model.features),
        outputs="logits" if model.classes else "predictions",
        constants=constants,
        helpers=helpers(model.layers),
        returned=returned,
        modules="\n".join(f"        {module(part)}" for part in model.layers if part.name),
        forward="\n".join(f"        {called(part)}" for part in model.layers),
    )
    return {"model.py": code.encode()}


def onnx_files(model: PortableModel) -> dict[str, bytes]:
    need("onnx", "export", "Writing ONNX")
    from amsfl.portable.to_onnx import graph

    return {"model.onnx": graph(model)}


def sklearn_files(model: PortableModel) -> dict[str, bytes]:
    kind, name = ("classifier", "PortableClassifier") if model.classes else ("regressor", "PortableRegressor")
    return {"model.py": SKLEARN.format(kind=kind, name=name).encode()}


FORMATS: dict[str, Callable[[PortableModel], dict[str, bytes]]] = {
    "torch": torch_files,
    "onnx": onnx_files,
    "sklearn": sklearn_files,
}
