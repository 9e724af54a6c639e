"""A plain PyTorch loop: what one writes in an afternoon without any framework, in one process or in several.

The server's weights and each worker's weighted sum lie in shared memory, so a round of several processes
costs two barriers and no pickling.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.multiprocessing as mp
from common import Clock, Job, arguments, load
from common_torch import build, drawing, pick_threads, weights_of


def flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def rounds(job: Job, server: torch.Tensor, own: torch.Tensor, place: int, workers: int) -> Iterator[None]:
    """One worker's share of every round, added up in `own`. All draw the same cohorts from the same seed."""
    torch.manual_seed(1 + place)
    cohorts = torch.Generator().manual_seed(0)
    local, draw, loss = build(job), drawing(job), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(local.parameters(), lr=job.lr)
    while True:
        cohort = torch.randperm(job.clients, generator=cohorts)[: job.cohort].tolist()
        rows = sum(int(job.sizes[i]) for i in cohort)
        own.zero_()
        for client in cohort[place::workers]:
            torch.nn.utils.vector_to_parameters(server.clone(), local.parameters())
            for x, y in zip(*(part.split(job.batch) for part in draw(client)), strict=True):
                optimizer.zero_grad()
                loss(local(x), y).backward()
                optimizer.step()
            own.add_(flat(local), alpha=float(job.sizes[client]) / rows)
        yield


def worker(path: str, server: torch.Tensor, sums: torch.Tensor, place: int, total: int, gate: Any) -> None:
    torch.set_num_threads(1)
    work = rounds(load(path), server, sums[place], place, len(sums))
    for _ in range(total):
        gate.wait()  # the server's weights are in place
        next(work)
        gate.wait()  # every sum is in place


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    model = build(job)
    server = flat(model).share_memory_()
    sums = torch.zeros(args.processes, len(server)).share_memory_()
    if args.processes == 1:
        pick_threads(job)
        work = rounds(job, server, sums[0], 0, 1)
    else:
        torch.set_num_threads(1)
        context = mp.get_context("spawn")
        gate = context.Barrier(args.processes + 1)
        for place in range(args.processes):
            given = (args.path, server, sums, place, clock.total, gate)
            context.Process(target=worker, args=given, daemon=True).start()

    def weights() -> list:
        torch.nn.utils.vector_to_parameters(server.clone(), model.parameters())
        return weights_of(model)

    for _ in range(clock.total):
        if args.processes == 1:
            next(work)
        else:
            gate.wait()
            gate.wait()
        server.copy_(sums.sum(0))
        clock.round(weights)
    clock.report()


if __name__ == "__main__":
    main()
