"""What the peers built on PyTorch share: a job's network as one would write it there, its weights in and out,
threads, and fast batches."""

import time
from collections.abc import Iterator

import numpy as np
import torch
from common import Job
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


def build(job: Job) -> torch.nn.Module:
    """The job's network with the job's initial weights (PyTorch's axes lie the other way round)."""
    model = Network(job.parts)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), job.weights, strict=True):
            parameter.copy_(torch.from_numpy(value.T.copy()))
    return model


def weights_of(model: torch.nn.Module) -> list[np.ndarray]:
    return [p.detach().numpy().T.copy() for p in model.parameters()]


def tensors(job: Job) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(job.x), torch.from_numpy(job.y)


class Batches:
    """One client's rows as an iterable of `steps` i.i.d. minibatches, gathered in one go.

    Frameworks that let the user choose the loader get this one: torch's DataLoader collates row by row
    and would be the slowest part of a step.
    """

    def __init__(self, x: torch.Tensor, y: torch.Tensor, steps: int, batch: int) -> None:
        self.x, self.y, self.steps, self.batch = x, y, steps, batch

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(len(self.x), (self.steps * self.batch,))
        return self.x[rows], self.y[rows]

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        x, y = self.draw()
        return zip(x.split(self.batch), y.split(self.batch), strict=True)


def client_batches(job: Job) -> list[Batches]:
    x, y = tensors(job)
    return [Batches(x[job.rows(i)], y[job.rows(i)], job.steps, job.batch) for i in range(job.clients)]


def pick_threads(job: Job, seconds: float = 0.5) -> int:
    """One thread, or two where that takes this job's steps clearly faster; sets and returns the number.

    Clearly, because two threads on a machine that turns out to be busy wait for each other at every product.
    """
    model, (x, y) = build(job), tensors(job)
    optimizer = torch.optim.SGD(model.parameters(), lr=job.lr)
    spent: dict[int, float] = {}
    for threads in (1, 2, 1, 2):
        torch.set_num_threads(threads)
        begin, done = time.perf_counter(), 0
        while done < 2 or time.perf_counter() - begin < seconds:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[: job.batch]), y[: job.batch]).backward()
            optimizer.step()
            done += 1
        spent[threads] = min(spent.get(threads, 1e9), (time.perf_counter() - begin) / done)
    best = 2 if spent[2] < 0.85 * spent[1] else 1
    torch.set_num_threads(best)
    return best
