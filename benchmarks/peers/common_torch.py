"""What the peers built on PyTorch share: the model, its weights in and out, threads, and fast batches."""

import time
from collections.abc import Iterator

import numpy as np
import torch
from common import Job


def build(job: Job) -> torch.nn.Sequential:
    """The job's MLP with the job's initial weights (PyTorch keeps a layer's matrix transposed)."""
    sizes = [job.weights[0].shape[0], *(b.shape[0] for b in job.weights[1::2])]
    layers: list[torch.nn.Module] = []
    for before, after in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), job.weights, strict=True):
            parameter.copy_(torch.from_numpy(value.T.copy()))
    return model


def weights_of(model: torch.nn.Module) -> list[np.ndarray]:
    return [p.detach().cpu().numpy().T.copy() for p in model.parameters()]


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


def pick_threads(job: Job, steps: int = 150) -> int:
    """One or two threads, whichever takes this job's steps faster on this machine; sets and returns it."""
    model, (x, y) = build(job), tensors(job)
    optimizer = torch.optim.SGD(model.parameters(), lr=job.lr)
    spent = {}
    for threads in (1, 2, 1, 2):
        torch.set_num_threads(threads)
        begin = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[: job.batch]), y[: job.batch]).backward()
            optimizer.step()
        spent[threads] = min(spent.get(threads, 1e9), time.perf_counter() - begin)
    best = min(spent, key=lambda n: spent[n])
    torch.set_num_threads(best)
    return best
