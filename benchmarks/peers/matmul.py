"""No training at all: the matrix products of the job's steps with torch.bmm over the cohort.

Three products forward, five backward (no gradient of the input), written into buffers made beforehand:
44,480 x batch floating-point operations a client step. What anything built on this library's sgemm could
reach if everything else (sampling, gathering, activations, loss, update, averaging) cost nothing.
One or two threads, whichever is faster.
"""

import time

import torch

from common import Clock, arguments


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    torch.manual_seed(0)
    weights = [torch.from_numpy(w).expand(job.cohort, *w.shape).contiguous() for w in job.weights[::2]]
    sizes = [weights[0].shape[1], *(w.shape[2] for w in weights)]
    hidden = [torch.randn(job.cohort, job.batch, size) for size in sizes]
    turned = [torch.empty_like(h) for h in hidden]  # gradients of the hidden layers
    slopes = [torch.empty_like(w) for w in weights]

    def step() -> None:
        for i, weight in enumerate(weights):
            torch.bmm(hidden[i], weight, out=hidden[i + 1])
        for i in reversed(range(len(weights))):
            torch.bmm(hidden[i].mT, turned[i + 1], out=slopes[i])
            if i:
                torch.bmm(turned[i + 1], weights[i].mT, out=turned[i])

    turned[-1].copy_(torch.randn_like(turned[-1]))

    def pace(threads: int) -> int:
        """Steps done in a quarter of a second; wakes the threads too."""
        torch.set_num_threads(threads)
        done, end = 0, time.perf_counter() + 0.25
        while time.perf_counter() < end:
            step()
            done += 1
        return done

    threads = max((1, 2, 1, 2), key=pace)
    torch.set_num_threads(threads)
    for _ in range(clock.total):
        for _ in range(job.steps):
            step()
        clock.round(lambda: job.weights)
    clock.report("torch", threads=threads, trained=False)


if __name__ == "__main__":
    main()
