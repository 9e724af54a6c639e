"""What the peers built on PyTorch share: a job's network, which is that of an export to torch, its weights in
and out, threads, and fast batches."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from common import Job

sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "amsfl" / "portable"))
from torch_model import Network


def build(job: Job) -> torch.nn.Module:
    """The job's network with the job's initial weights (PyTorch's axes lie the other way round)."""
    model = Network({"layers": job.parts, "classes": (), "amount": None})
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), job.weights, strict=True):
            parameter.copy_(torch.from_numpy(value.T.copy()))
    return model


def weights_of(model: torch.nn.Module) -> list[np.ndarray]:
    return [p.detach().numpy().T.copy() for p in model.parameters()]


def drawing(job: Job) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    """draw(client) -> rows and labels of all minibatches of its round, i.i.d., gathered in one go.

    torch's DataLoader collates row by row and would be the slowest part of a step.
    """
    x, y = map(torch.from_numpy, (job.x, job.y))

    def draw(client: int) -> tuple[torch.Tensor, torch.Tensor]:
        own = job.rows(client)
        rows = torch.randint(own.start, own.stop, (job.steps * job.batch,))
        return x[rows], y[rows]

    return draw


def pick_threads(job: Job, seconds: float = 0.5) -> int:
    """One thread, or two where that takes this job's steps clearly faster; sets and returns the number.

    Clearly, because two threads on a machine that turns out to be busy wait for each other at every product.
    """
    model, (x, y) = build(job), map(torch.from_numpy, (job.x, job.y))
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
