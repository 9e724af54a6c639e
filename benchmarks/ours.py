"""Our side of a job: client steps a second of plain FedAvg, by amsfl's public functions alone.

    python benchmarks/ours.py --job A
    python benchmarks/ours.py --job A --trials 2000        trials side by side, as on a GPU
    python benchmarks/ours.py --job A --set clients=1000 --set model=mlp:512 --set method=amsfl

A run of three times as many rounds takes longer by its additional rounds alone, whatever a run takes besides:
that difference is the pace. The first run of each length warms up, of the others the best counts. So the same
file measures any version of the package that is on the path.
"""

import argparse
import json
import time
from typing import Any, NamedTuple

import numpy as np

import amsfl
from amsfl.data import Dataset, load
from amsfl.simulation import CustomParts, make_config


class Job(NamedTuple):
    clients: int
    cohort: int
    steps: int
    batch: int
    rounds: int
    data: str = "nslkdd"
    model: str = "mlp"


JOBS = {
    "A": Job(5, 5, 20, 64, 50),
    "B": Job(1000, 50, 10, 32, 20),
    "C": Job(100, 10, 10, 32, 5, "images", "cnn"),
    "D": Job(100, 10, 10, 32, 2, "texts", "transformer"),
    "E": Job(5, 5, 20, 64, 20, model="mlp:256-128"),
    "F": Job(5, 5, 20, 64, 5, model="mlp:1024-512"),
}
LR = 0.05


def rows_of(name: str) -> Dataset:
    """Data by name; made-up images or texts: a quarter of a row's numbers are those of its class."""
    if name not in ("images", "texts"):
        return load(name)
    rng, texts = np.random.default_rng(1998), name == "texts"
    y = rng.integers(4 if texts else 10, size=12_500).astype(np.int32)
    drawn = [
        rng.integers(1, 8192, (n, 32)) if texts else rng.normal(size=(n, 784)) for n in (y.max() + 1, len(y))
    ]
    x = np.where(rng.random(drawn[1].shape) < 0.25, drawn[0][y], drawn[1]).astype(np.float32)
    held = {"holdout": (x[10_000:], y[10_000:])}
    return Dataset(name, x[:10_000], y[:10_000], held, tuple(map(str, range(y.max() + 1))))


def measure(job: Job, data: Any, repeat: int = 3, trials: int = 1, **more: str) -> dict[str, Any]:
    """Client steps a second of every repetition, and whether it really trained; `more`: further settings."""
    settings = {name: getattr(job, name) for name in ("clients", "cohort", "steps", "batch", "model")}
    settings |= {"method": "fedavg", "partition": "dirichlet:0.5", "profile": "uniform", "lr": LR}
    settings |= {"data": data.name, "eval_every": 10**6, "details": "", "clock": "sum"} | more

    def timed(rounds: int) -> tuple[float, Any]:
        configs = [make_config(settings | {"rounds": rounds, "seed": seed}) for seed in range(trials)]
        begun = time.perf_counter()
        results = amsfl.run_batch(configs, CustomParts(dataset=data))
        return time.perf_counter() - begun, results

    def steps(results: Any) -> int:
        return sum(sum(result.summary.steps.values()) for result in results)

    each = []
    for rounds in (job.rounds, 3 * job.rounds):  # warm up
        timed(rounds)
    for _ in range(repeat):
        short, few = timed(job.rounds)
        long, many = timed(3 * job.rounds)
        each.append((steps(many) - steps(few)) / max(long - short, 1e-9))
    return {
        "client_steps_per_second": each,
        "accuracy": few[0].summary.accuracy,
        "numbers": few[0].parts.task.dim,
        "peak_mb": few[0].summary.wall.get("peak_mb"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--job", choices=JOBS, default="A")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of a job or a run")
    given = parser.parse_args()
    own = dict(each.split("=", 1) for each in given.set)
    job = JOBS[given.job]
    of_job = {name: own.pop(name) for name in Job._fields if name in own}
    job = job._replace(**{name: type(getattr(job, name))(value) for name, value in of_job.items()})
    data = rows_of(job.data)
    print(json.dumps({"job": given.job} | measure(job, data, given.repeat, given.trials, **own)))


if __name__ == "__main__":
    main()
