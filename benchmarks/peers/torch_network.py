"""A job's network (its list of layers) in PyTorch, as one would write it there."""

import torch
from torch import nn


class Tokens(nn.Module):
    """A vector for every token and one for every place."""

    def __init__(self, words: int, places: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, width))
        self.bias = nn.Parameter(torch.empty(places, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(x.long(), self.weight) + self.bias


class Network(nn.Module):
    """The layers one after another; their parameters in the list's order."""

    def __init__(self, parts: list[dict]) -> None:
        super().__init__()
        self.parts = parts
        for part in parts:
            if part["name"]:
                self.add_module(part["name"], made(part))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x
        for part in self.parts:
            kind = part["kind"]
            if kind == "keep":
                kept = x
            elif kind == "add":
                x = x + kept
            elif part["name"]:
                x = getattr(self, part["name"])(x)
            else:
                x = PLAIN[kind](x, part)
        return x


def made(part: dict) -> nn.Module:
    inputs, outputs, many = part["inputs"], part["outputs"], part["many"]
    return {
        "dense": lambda: nn.Linear(inputs, outputs),
        "conv": lambda: nn.Conv2d(inputs, outputs, 3, stride=part["stride"], padding=1),
        "norm": lambda: nn.GroupNorm(many, inputs),
        "level": lambda: nn.LayerNorm(inputs),
        "tokens": lambda: Tokens(inputs, many, outputs),
    }[part["kind"]]()


def attended(x: torch.Tensor, part: dict) -> torch.Tensor:
    rows, places, wide = x.shape
    heads = part["many"]
    q, k, v = x.view(rows, places, 3, heads, wide // (3 * heads)).permute(2, 0, 3, 1, 4)
    mixed = nn.functional.scaled_dot_product_attention(q, k, v)
    return mixed.transpose(1, 2).reshape(rows, places, wide // 3)


PLAIN = {
    "relu": lambda x, part: torch.relu(x),
    "image": lambda x, part: x.reshape(-1, part["outputs"], part["inputs"], part["inputs"]),
    "flatten": lambda x, part: x.flatten(1),
    "pool": lambda x, part: x.mean((2, 3)),
    "mean": lambda x, part: x.mean(1),
    "attend": attended,
}
