"""What an accelerator makes of it: the same code, nothing changed.

    python benchmarks/gpu.py --data-dir nslkdd --out benchmarks/results/h200.json

Our side of both jobs, trials as a batch axis, unequal steps, and the paper's comparison with 50 trials of
every method as one batch each. Compilation is timed by jax's own events and taken out.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from amsfl import methods
from amsfl.data import Dataset, load, partition
from amsfl.engines import Orders, models, task
from amsfl.engines.lanes import Lanes
from amsfl.federation import run_trials
from amsfl.study import REPRODUCE, read_study
from amsfl.study.bench import LR, bench

import jax  # isort: skip  # after amsfl, which sets it up

SIZES = {1: 8, 10: 64, 50: 256, 100: 512, 400: 2048, 2000: 10240}  # trials: lanes
CLIENTS, STEPS, BATCH, ROUNDS = 5, 20, 64, 20
compiling = 0.0


def listen(event: str, seconds: float, **_: Any) -> None:
    global compiling
    if event.startswith("/jax/core/compile/"):
        compiling += seconds


def pace(data: Dataset, trials: int, lanes: int, unequal: bool, steps: int = STEPS) -> float:
    """Client steps a second of FedAvg, best of three series of rounds after one that compiles."""
    parts = partition("dirichlet:0.5", data.y, CLIENTS, 0)
    network = models.make("mlp", data.x.shape[1], len(data.classes))
    job = task.make(data, network, [parts] * trials, range(trials))
    engine = Lanes(job, methods.make("fedavg"), BATCH, lanes=lanes)
    rng = np.random.default_rng(0)
    shape = (trials, CLIENTS)
    who = np.broadcast_to(np.arange(CLIENTS), shape)
    plans = [rng.integers(1, 101, shape) if unequal else np.full(shape, steps) for _ in range(ROUNDS)]
    best, done = 0.0, sum(int(plan.sum()) for plan in plans)
    for _ in range(4):
        state = jax.block_until_ready(engine.start())
        begun = time.perf_counter()
        for number, plan in enumerate(plans):
            state, _ = engine.round(state, Orders(who, plan, np.full(trials, LR), job.shards.weights), number)
        jax.block_until_ready(state)
        best = max(best, done / (time.perf_counter() - begun))
    return best


def comparison(data: Dataset, trials: int) -> dict[str, Any]:
    """Every method of `amsfl reproduce`, all its trials at once, to the end of their runs."""
    study, found = read_study(REPRODUCE), {}
    for name in study.methods:
        before, begun = compiling, time.perf_counter()
        results = run_trials(study.config(name), [study.seed + trial for trial in range(trials)], data)
        took, compiled = time.perf_counter() - begun, compiling - before
        found[name] = {
            "seconds": took,
            "compiling": compiled,
            "computing": took - compiled,
            "accuracy": float(np.mean([result.accuracy for result in results])),
        }
        print(name, found[name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Our side on an accelerator.")
    parser.add_argument("--data-dir", help="folder with the NSL-KDD files")
    parser.add_argument("--trials", type=int, default=50, help="of each method in the paper's comparison")
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")
    given = parser.parse_args()
    jax.monitoring.register_event_duration_secs_listener(listen)
    data = load("nslkdd", data_dir=given.data_dir)
    outcome: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "comparison": comparison(data, given.trials),
    }
    outcome["jobs"] = {name: bench(name, given.data_dir) for name in ("A", "B")}
    outcome["trials"] = {trials: pace(data, trials, lanes, False) for trials, lanes in SIZES.items()}
    outcome["equal"] = pace(data, 400, 512, False, 50)
    outcome["unequal"] = pace(data, 400, 512, True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(outcome, indent=1) + "\n")
    total = {
        key: sum(entry[key] for entry in outcome["comparison"].values()) for key in ("computing", "compiling")
    }
    print(json.dumps({**outcome, "comparison": total}, indent=1))


if __name__ == "__main__":
    main()
