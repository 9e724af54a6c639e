"""A model that two processes share against one process that has all of it: memory and pace.

    python benchmarks/shared.py --model mlp:1500-1500 --method scaffold --clients 10

Prints for every process what it holds of the state, its peak memory and the client steps a second of all.
"""

import argparse
import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROWS, WIDE, STEPS, BATCH, TIMED = 400, 64, 5, 32, 3
LIMIT = 240


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One process against two that share every model.")
    parser.add_argument("--model", default="mlp:1500-1500")
    parser.add_argument("--method", default="scaffold")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--cores", type=int, help="of every process; default: all there are")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def work(given: argparse.Namespace) -> None:
    """One of the processes."""
    import jax
    import numpy as np

    from amsfl.engines import devices

    devices.configure()
    if given.processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{given.port}", given.processes, given.rank)
    from amsfl import methods
    from amsfl.data import Dataset
    from amsfl.engines import Orders, models, task
    from amsfl.engines.jax_engine import JaxEngine

    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, ROWS).astype(np.int32)
    x = (rng.normal(size=(ROWS, WIDE)) + y[:, None]).astype(np.float32)
    data = Dataset("rows", x, y, {"holdout": (x, y)}, tuple("abcd"), tuple(map(str, range(WIDE))))
    parts = np.array_split(np.arange(ROWS), given.clients)
    job = task.make(data, models.make(given.model, WIDE, 4), [parts], (0,))
    engine = JaxEngine(job, methods.make(given.method), BATCH, mesh=devices.mesh(parts=given.processes))
    everybody = np.arange(given.clients)[None]
    orders = Orders(everybody, np.full(everybody.shape, STEPS), np.array([0.05]), job.shards.weights)
    state: Any = engine.start()
    state, _ = engine.round(state, orders, 0)
    jax.block_until_ready(state)
    started = time.perf_counter()
    for number in range(1, 1 + TIMED):
        state, _ = engine.round(state, orders, number)
    jax.block_until_ready(state)
    pace = TIMED * STEPS * given.clients / (time.perf_counter() - started)
    loss = float(engine.evaluate(engine.models(state), "holdout").loss[0])
    held = sum(part.addressable_shards[0].data.nbytes for part in state) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(
        f"{given.processes} processes, number {given.rank}: {job.dim:,} parameters, {held:.0f} MiB of state, "
        f"peak {peak:.0f} MiB, {pace:.1f} client steps a second, loss {loss:.5f}"
    )


def start(processes: int) -> None:
    """So many of them; all are ended, whatever happens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {
        "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "src"),
        "JAX_PLATFORMS": "cpu",
    }
    more = ["--processes", str(processes), "--port", str(port)]
    command = [sys.executable, __file__, *sys.argv[1:], *more]
    each = [
        subprocess.Popen([*command, "--rank", str(rank)], env=env, stderr=subprocess.DEVNULL)
        for rank in range(processes)
    ]
    try:
        for process in each:
            process.wait(LIMIT)
    finally:
        for process in each:
            process.kill()
            process.wait()


def main() -> None:
    given = arguments()
    if given.rank is None:
        start(1)
        start(2)
        return
    if given.cores:
        own = sorted(os.sched_getaffinity(0))
        begin = given.rank * given.cores
        os.sched_setaffinity(0, own[begin : begin + given.cores])
    work(given)


if __name__ == "__main__":
    main()
