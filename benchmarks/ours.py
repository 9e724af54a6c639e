"""Our side of a job: client steps a second of plain FedAvg, by amsfl's public functions alone.

    python benchmarks/ours.py --job A --data-dir DIR

A run of three times as many rounds takes longer by its additional rounds alone, whatever a run takes besides:
that difference is the pace. The first run of each length warms up, of the others the best counts. So the same
file measures any version of the package that is on the path.
"""

import argparse
import json
import time
from typing import Any, NamedTuple

import amsfl
from amsfl.data import load


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
    "C": Job(100, 10, 10, 32, 5, "images-synth", "cnn"),
    "D": Job(100, 10, 10, 32, 2, "texts-synth", "transformer"),
    "E": Job(5, 5, 20, 64, 20, model="mlp:256-128"),
    "F": Job(5, 5, 20, 64, 5, model="mlp:1024-512"),
}
LR = 0.05


def measure(job: Job, data: Any, repeat: int = 3, **more: Any) -> dict[str, Any]:
    """Client steps a second of every repetition, and whether it really trained; `more`: further settings."""
    settings = {name: getattr(job, name) for name in ("clients", "cohort", "steps", "batch", "model")}
    settings |= {"method": "fedavg", "partition": "dirichlet:0.5", "profile": "uniform", "lr": LR}
    settings |= {"eval_every": 10**6, "details": False, "clock": "sum"} | more

    def seconds(rounds: int) -> tuple[float, Any]:
        begun = time.perf_counter()
        result = amsfl.run(dataset=data, rounds=rounds, progress=False, **settings)
        return time.perf_counter() - begun, result

    begun = time.perf_counter()
    for rounds in (job.rounds, 3 * job.rounds):
        seconds(rounds)
    warmed = time.perf_counter() - begun
    more_steps, each = 2 * job.rounds * job.cohort * job.steps, []
    for _ in range(repeat):
        short, result = seconds(job.rounds)
        each.append(more_steps / max(seconds(3 * job.rounds)[0] - short, 1e-9))
    return {
        "client_steps_per_second": max(each),
        "each": each,
        "accuracy": result.summary.accuracy,
        "warm_up_seconds": warmed,
        "peak_mb": result.summary.wall.get("peak_mb"),
        "version": amsfl.__version__,
        "rounds": job.rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--job", choices=JOBS, default="A")
    parser.add_argument("--data-dir", help="folder with the NSL-KDD files")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rounds", type=int, help="in place of the job's")
    given = parser.parse_args()
    job = JOBS[given.job]
    job = job._replace(rounds=given.rounds or job.rounds)
    data = load(job.data, data_dir=given.data_dir)
    outcome = {"job": given.job, "data": data.name, "synthetic": data.synthetic}
    print(json.dumps(outcome | measure(job, data, given.repeat)))


if __name__ == "__main__":
    main()
