"""What every peer's script shares: the job's arrays, the clock over rounds, and the one JSON line.

Only numpy, because it runs inside each peer's own virtual environment.
"""

import argparse
import json
import sys
import time
from typing import Any, NamedTuple

import numpy as np

WARM = 2  # rounds before the first that counts: compilation, caches, worker start


class Job(NamedTuple):
    """One job as run.py exported it; rows of client i are offsets[i]:offsets[i + 1]."""

    x: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    weights: list[np.ndarray]  # w0 [in, out], b0 [out], w1, ...: the initial model, the same for all
    clients: int
    cohort: int
    steps: int
    batch: int
    rounds: int
    lr: float
    parts: list[dict]  # the network as a list of layers (amsfl's portable/network.py)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def rows(self, client: int) -> slice:
        return slice(int(self.offsets[client]), int(self.offsets[client + 1]))


def arguments() -> argparse.Namespace:
    """What was asked for, and the job that lies at `path`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", help="npz exported by run.py")
    parser.add_argument("model", help="npz to write the model after the job's last round to")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="of plain_pytorch.py")
    given = parser.parse_args()
    given.job = load(given.path)
    return given


def load(path: str) -> Job:
    with np.load(path) as data:
        settings = json.loads(str(data["settings"]))
        named = sum(bool(part["name"]) for part in settings["parts"])
        weights = [data[f"{kind}{i}"] for i in range(named) for kind in "wb"]
        rest = Job._fields[4:]
        return Job(data["x"], data["y"], data["offsets"], weights, **{name: settings[name] for name in rest})


class Clock:
    """Call `round` at the end of every round; runs `total` rounds without a pause.

    The first WARM rounds are not timed; then every block of `job.rounds` rounds is one repetition and the
    best one counts. The model is kept at round number `job.rounds`, so accuracy is that of the plain job.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.total = args, WARM + args.repeat * args.job.rounds
        self.marks: list[float] = []
        self.model: list[np.ndarray] = []

    def round(self, weights: Any) -> None:
        """`weights` is a function that returns w0, b0, w1, ... as numpy; called once."""
        self.marks.append(time.perf_counter())
        if len(self.marks) == self.args.job.rounds:
            self.model = [np.array(w, np.float32) for w in weights()]

    def report(self) -> None:
        """Save the model and print the JSON line that run.py reads."""
        job, marks = self.args.job, self.marks
        if len(marks) != self.total:
            sys.exit(f"{len(marks)} rounds were seen, {self.total} were asked for")
        ends = [marks[WARM - 1 + k * job.rounds] for k in range(self.args.repeat + 1)]
        each = job.rounds * job.cohort * job.steps / np.diff(ends)
        np.savez(self.args.model, **{f"{'wb'[i % 2]}{i // 2}": w for i, w in enumerate(self.model)})
        print("\n" + json.dumps({"client_steps_per_second": each.tolist()}), flush=True)
