"""What an optimizer, a schedule and a gradient scaler remember, as one vector, without pickle.

Tensors become a safetensors file, the rest JSON in its header; its bytes are held four to a number, since a
client's state is kept as one vector of float32.
"""

import json
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save

from amsfl.core import UserError
from amsfl.flower.messages import Vector

PLAIN = (bool, int, float, str, type(None))


def dump(*things: Any) -> Vector:
    """The state_dict of each, None for those that are not there."""
    tensors: dict[str, torch.Tensor] = {}
    tree = [_flat(thing.state_dict() if thing is not None else None, tensors) for thing in things]
    content = save(tensors or {"none": torch.zeros(0)}, {"tree": json.dumps(tree)})
    size = len(content).to_bytes(8, "little")
    padded = size + content + bytes(-len(content) % 4)
    return np.frombuffer(padded, np.float32)


def load(state: Vector, *things: Any) -> None:
    """Into the same things, made anew."""
    content = np.ascontiguousarray(state, np.float32).tobytes()
    content = content[8 : 8 + int.from_bytes(content[:8], "little")]
    length = int.from_bytes(content[:8], "little")  # safetensors: a header of JSON after its length
    tree = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["tree"])
    tensors = load_tensors(content)
    for thing, part in zip(things, tree, strict=True):
        if thing is not None:
            thing.load_state_dict(_deep(part, tensors))


def _flat(part: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(part, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = part.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(part, dict):
        return {"pairs": [[key, _flat(value, tensors)] for key, value in part.items()]}
    if isinstance(part, tuple):
        return {"tuple": [_flat(value, tensors) for value in part]}
    if isinstance(part, list):
        return [_flat(value, tensors) for value in part]
    if isinstance(part, PLAIN):
        return part
    raise UserError(
        f"This optimizer remembers a {type(part).__name__}, which cannot be kept between rounds; leave "
        "keep_optimizer out."
    )


def _deep(part: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(part, list):
        return [_deep(value, tensors) for value in part]
    if not isinstance(part, dict):
        return part
    if "tensor" in part:
        return tensors[part["tensor"]]
    if "tuple" in part:
        return tuple(_deep(value, tensors) for value in part["tuple"])
    return {key: _deep(value, tensors) for key, value in part["pairs"]}
