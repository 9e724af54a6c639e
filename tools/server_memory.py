"""Peak memory of the server by the number of clients, with a large model.

    python tools/server_memory.py [NUMBERS]

A grid without network or processes; clients' replies are made when they are fetched, one at a time, so that
what is measured is the server's. Each count of clients runs in a process of its own.
"""

import resource
import subprocess
import sys
from typing import Any

ROUNDS = 2


def peak(numbers: int, clients: int) -> float:
    """Megabytes beyond what is there before the first round."""
    import numpy as np

    from amsfl.flower import NumpyTrainer, numpy_client, serve
    from amsfl.flower.in_process import InProcessGrid

    start = np.zeros(numbers, np.float32)

    def gradient(x: Any, step: int, order: Any) -> Any:
        return 1.0, np.full_like(x, 1e-3)

    app = numpy_client(lambda context: NumpyTrainer(10, start, gradient))
    grid = InProcessGrid(app, [{"partition-id": place} for place in range(clients)])
    settings = {"method": "fedavg", "clients": clients, "rounds": ROUNDS, "steps": 1, "lr": 0.1}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    serve(grid, {**settings, "poll": 0.001, "patience": 600.0}, start=start)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    if len(sys.argv) > 2:
        print(f"{peak(int(sys.argv[1]), int(sys.argv[2])):.0f}")
        return
    numbers = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000_000
    model = 4 * numbers / 2**20
    print(f"a model of {numbers:,} numbers, {model:.0f} MB")
    for clients in (1, 6, 20):
        done = subprocess.run(
            [sys.executable, __file__, str(numbers), str(clients)], capture_output=True, text=True, check=True
        )
        megabytes = float(done.stdout.split()[-1])
        print(f"{clients:3} clients: {megabytes:6.0f} MB, {megabytes / model:.1f} models")


if __name__ == "__main__":
    main()
