"""A plain PyTorch loop: what one writes in an afternoon without any framework. One process.

With BENCH_COMPILE the network is compiled by torch.compile.
"""

import copy
import os

import torch
from common_torch import build, client_batches, finished, pick_threads, weights_of

from common import Clock, arguments


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    threads = pick_threads(job)
    torch.manual_seed(0)
    server, local = build(job), build(job)
    loaders, loss = client_batches(job), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(local.parameters(), lr=job.lr)
    total = copy.deepcopy(list(server.parameters()))
    forward = torch.compile(local) if os.environ.get("BENCH_COMPILE") else local
    for _ in range(clock.total):
        cohort = torch.randperm(job.clients)[: job.cohort].tolist()
        rows = sum(int(job.sizes[i]) for i in cohort)
        with torch.no_grad():
            torch._foreach_zero_(total)
        for client in cohort:
            with torch.no_grad():
                torch._foreach_copy_(list(local.parameters()), list(server.parameters()))
            for x, y in loaders[client]:
                optimizer.zero_grad()
                loss(forward(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                torch._foreach_add_(total, list(local.parameters()), alpha=float(job.sizes[client]) / rows)
        with torch.no_grad():
            torch._foreach_copy_(list(server.parameters()), total)
        finished()
        clock.round(lambda: weights_of(server))
    clock.report("torch", threads=threads)


if __name__ == "__main__":
    main()
