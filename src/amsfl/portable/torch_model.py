"""The network in torch, made from model.json and model.safetensors beside this file.

    from model import load
    logits = load()(features)  # float32 [rows, features]: amsfl.portable.load(RUN).encode(rows)

A model of numbers gives them in their own units. This file is copied into an export: it needs torch alone.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file


class Network(torch.nn.Module):
    """The layers in order; `classes` are the names of its outputs."""

    def __init__(self, about):
        super().__init__()
        self.layers, self.classes, self.amount = about["layers"], about["classes"], about["amount"]
        for part in self.layers:
            if part["name"]:
                self.add_module(part["name"], MODULES[part["kind"]](part))

    def forward(self, x):
        kept = x
        for part in self.layers:
            if part["kind"] == "keep":
                kept = x
            elif part["kind"] == "add":
                x = x + kept
            elif part["name"]:
                x = getattr(self, part["name"])(x)
            else:
                x = FUNCTIONS[part["kind"]](part, x)
        if self.amount is None:
            return x
        # in double precision: a shift may be far larger than what it is added to
        return x[:, 0].double() * self.amount["scale"] + self.amount["shift"]


class Tokens(torch.nn.Module):
    """A vector for every token and one for every place."""

    def __init__(self, part):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(part["inputs"], part["outputs"]))
        self.bias = torch.nn.Parameter(torch.empty(part["many"], part["outputs"]))

    def forward(self, x):
        return self.weight[x.long()] + self.bias


def attend(part, x):
    rows, places, width = x.shape
    heads = x.reshape(rows, places, 3, part["many"], -1).permute(2, 0, 3, 1, 4)
    mixed = torch.nn.functional.scaled_dot_product_attention(*heads)
    return mixed.transpose(1, 2).reshape(rows, places, width // 3)


MODULES = {
    "dense": lambda part: torch.nn.Linear(part["inputs"], part["outputs"]),
    "conv": lambda part: torch.nn.Conv2d(part["inputs"], part["outputs"], 3, part["stride"], padding=1),
    "level": lambda part: torch.nn.LayerNorm(part["inputs"]),
    "tokens": Tokens,
}
FUNCTIONS = {
    "relu": lambda part, x: torch.relu(x),
    "image": lambda part, x: x.reshape(-1, part["outputs"], part["inputs"], part["inputs"]),
    "flatten": lambda part, x: x.flatten(1),
    "mean": lambda part, x: x.mean(1),
    "attend": attend,
}


def load(folder=None):
    """The trained network, ready to be asked."""
    where = Path(folder or Path(__file__).parent)
    network = Network(json.loads((where / "model.json").read_text(encoding="utf-8")))
    network.load_state_dict(load_file(where / "model.safetensors"))
    return network.eval()
