"""Our own server's time per client and round: python tools/server_time.py [--sizes 2410,100000]

A rehearsal (no network, no processes) with clients that take one step of numpy. What they take, and what
Flower's messages cost, is not counted: the clock runs while the server's own code does.
"""

import argparse
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Message

from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid


class Timed(InProcessGrid):
    """Counts the seconds that are not the server's."""

    elsewhere = 0.0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self.counted(super().push_messages, messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self.counted(super().pull_messages, message_ids)

    def counted(self, what: Any, given: Any) -> Any:
        began = time.perf_counter()
        found = what(given)
        self.elsewhere += time.perf_counter() - began
        return found


def app(size: int) -> Any:
    def gradient(x: Any, step: int, order: Any) -> Any:
        return 1.0, 0.01 * x + 1e-3

    return numpy_client(lambda context: NumpyTrainer(100, np.zeros(size, np.float32), gradient))


def measure(method: str, clients: int, size: int, rounds: int) -> float:
    """Milliseconds per client and round, by the difference of a long and a short run."""
    took = []
    for count in (1, 1 + rounds):
        grid = Timed(app(size), [{"partition-id": place} for place in range(clients)])
        began = time.perf_counter()
        settings = {"method": method, "clients": clients, "rounds": count, "steps": 1, "poll": 1e-6}
        serve(grid, settings, evaluate=lambda params, buffers: {})
        took.append(time.perf_counter() - began - grid.elsewhere)
    return 1000 * (took[1] - took[0]) / rounds / clients


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="2410,100000")
    parser.add_argument("--methods", default="fedavg,amsfl,scaffold")
    given = parser.parse_args()
    for method in given.methods.split(","):
        for size in map(int, given.sizes.split(",")):
            each = measure(method, given.clients, size, given.rounds)
            print(f"{method:10} {size:8} parameters: {each:.2f} ms per client and round", flush=True)
