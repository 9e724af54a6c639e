"""The plain PyTorch loop in two processes, one thread each: a cohort's clients are dealt to both.

The server's weights and each worker's weighted sum lie in shared memory, so a round costs two barriers
and no pickling.
"""

import torch
import torch.multiprocessing as mp
from common_torch import build, client_batches, weights_of

from common import Clock, Job, arguments, load

WORKERS = 2


def flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def train(job: Job, rank: int, total: int, server: torch.Tensor, sums: torch.Tensor, gate) -> None:
    """One worker's share of every round. All draw the same cohorts from the same seed."""
    torch.set_num_threads(1)
    torch.manual_seed(1 + rank)
    cohorts = torch.Generator().manual_seed(0)
    local, loaders, loss = build(job), client_batches(job), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(local.parameters(), lr=job.lr)
    for _ in range(total):
        gate.wait()  # the server's weights are in place
        cohort = torch.randperm(job.clients, generator=cohorts)[: job.cohort].tolist()
        rows = sum(int(job.sizes[i]) for i in cohort)
        sums[rank].zero_()
        for client in cohort[rank::WORKERS]:
            torch.nn.utils.vector_to_parameters(server.clone(), local.parameters())
            for x, y in loaders[client]:
                optimizer.zero_grad()
                loss(local(x), y).backward()
                optimizer.step()
            sums[rank].add_(flat(local), alpha=float(job.sizes[client]) / rows)
        gate.wait()  # every sum is in place


def worker(path: str, *rest) -> None:
    train(load(path), *rest)


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    torch.set_num_threads(1)
    model = build(job)
    server = flat(model).share_memory_()
    sums = torch.zeros(WORKERS, len(server)).share_memory_()
    context = mp.get_context("spawn")
    gate = context.Barrier(WORKERS + 1)
    for rank in range(WORKERS):
        given = (args.path, rank, clock.total, server, sums, gate)
        context.Process(target=worker, args=given, daemon=True).start()

    def weights() -> list:
        torch.nn.utils.vector_to_parameters(server.clone(), model.parameters())
        return weights_of(model)

    for _ in range(clock.total):
        gate.wait()
        gate.wait()
        server.copy_(sums.sum(0))
        clock.round(weights)
    clock.report("torch", threads=1, processes=WORKERS)


if __name__ == "__main__":
    main()
