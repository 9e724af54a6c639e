"""What the peers built on PyTorch share: the model, its weights in and out, threads, and fast batches."""

import os
import sys
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch_network import Network

from common import Job

DEVICE = os.environ.get("BENCH_DEVICE", "cpu")  # set by run.py
KEPT: list[torch.library.Library] = []


def build(job: Job) -> torch.nn.Module:
    """The job's network with the job's initial weights (PyTorch's axes lie the other way round)."""
    model = Network(job.parts)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), job.weights, strict=True):
            parameter.copy_(torch.from_numpy(value.T.copy()))
    return model.to(DEVICE)


def weights_of(model: torch.nn.Module) -> list[np.ndarray]:
    return [p.detach().cpu().numpy().T.copy() for p in model.parameters()]


def tensors(job: Job) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(job.x).to(DEVICE), torch.from_numpy(job.y).to(DEVICE)


def finished() -> None:
    """A GPU's work is done when it says so."""
    if DEVICE != "cpu":
        torch.cuda.synchronize()


class Batches:
    """One client's rows as an iterable of `steps` i.i.d. minibatches, gathered in one go.

    Frameworks that let the user choose the loader get this one: torch's DataLoader collates row by row
    and would be the slowest part of a step.
    """

    def __init__(self, x: torch.Tensor, y: torch.Tensor, steps: int, batch: int) -> None:
        self.x, self.y, self.steps, self.batch = x, y, steps, batch

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(len(self.x), (self.steps * self.batch,), device=self.x.device)
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
    if DEVICE != "cpu":
        return 1
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


def mend_torchvision() -> None:
    """Make torchvision importable beside a CPU build of torch; call before a framework that imports it.

    A torchvision built for CUDA cannot load its compiled operators there. Nothing here uses them, but its
    import insists that two of them are declared.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT.append(library)  # a library that is collected takes its operators along
