"""One measurement of scaling.py: `scaling_point.py KIND JSON`, the result as the last line printed.

Rows are made in memory, ten a client (at least 20,000), with the shape of NSL-KDD: 122 columns, 5 classes.
"""

import json
import resource
import sys
import time
from typing import Any

import numpy as np

from amsfl.engines import devices

devices.configure()  # before anything starts jax

import jax  # noqa: E402

from amsfl import methods, simulation  # noqa: E402
from amsfl.data import Dataset  # noqa: E402
from amsfl.engines import Engine, Orders, make, models, task  # noqa: E402

FEATURES, CLASSES, REPEAT = 122, 5, 3
Job = dict[str, Any]


def rss_mb() -> float:
    """What the process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def rows_of(job: Job) -> Dataset:
    count = max(20_000, 10 * job["clients"])
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, count, np.int32)
    x = rng.standard_normal((count, FEATURES), np.float32)
    x[:, :CLASSES] += 2 * np.eye(CLASSES, dtype=np.float32)[y]
    names = tuple(map(str, range(FEATURES)))
    return Dataset("rows", x, y, {"holdout": (x[:4000], y[:4000])}, tuple("abcde"), names)


def engine_of(job: Job) -> tuple[task.Task, Engine]:
    data = rows_of(job)
    network = models.make(f"mlp:{job['hidden']}", FEATURES, CLASSES)
    parts = np.array_split(np.arange(len(data.y)), job["clients"])
    made = task.make(data, network, [parts] * job["trials"], range(job["trials"]))
    return made, make("jax", made, methods.make(job.get("method", "fedavg")), job["batch"])


def orders(job: Job, made: task.Task, steps: Any, rng: np.random.Generator) -> Orders:
    shape = (job["trials"], job["cohort"])
    draw = [rng.choice(job["clients"], job["cohort"], replace=False) for _ in range(job["trials"])]
    cohort = np.sort(np.array(draw), axis=1)
    weights = np.take_along_axis(made.shards.weights, cohort, 1)
    return Orders(cohort, np.broadcast_to(steps, shape), np.full(job["trials"], 0.05), weights)


def pass_of(job: Job, made: task.Task, engine: Engine, steps: Any, trail: list[float]) -> float:
    """Seconds a client step over `rounds` rounds, and the memory after each."""
    rng = np.random.default_rng(0)
    state = jax.block_until_ready(engine.start())
    begun, spent = time.perf_counter(), 0
    for number in range(job["rounds"]):
        order = orders(job, made, steps, rng)
        state, _ = engine.round(state, order, number)
        spent += int(np.sum(order.steps))
        if len(trail) < job["rounds"]:
            jax.block_until_ready(state)
            trail.append(rss_mb())
    jax.block_until_ready(state)
    return (time.perf_counter() - begun) / spent


def rate(job: Job) -> Job:
    made, engine = engine_of(job)
    trail: list[float] = []
    each = [pass_of(job, made, engine, job["steps"], trail) for _ in range(REPEAT + 1)][1:]
    return {"seconds_per_step": min(each), "each": each, "rss_mb": trail, "dim": made.dim}


def unequal(job: Job) -> Job:
    """Steps from 1..100 and as many equal ones, by turns in one process."""
    made, engine = engine_of(job)
    drawn = np.random.default_rng(1).integers(1, 101, (job["trials"], job["cohort"]))
    steps = {"equal": np.full_like(drawn, round(drawn.mean())), "unequal": drawn}
    for one in steps.values():
        pass_of(job, made, engine, one, [0.0] * job["rounds"])
    each = [
        {name: pass_of(job, made, engine, one, [0.0] * job["rounds"]) for name, one in steps.items()}
        for _ in range(REPEAT + 2)
    ]
    best = {name: min(turn[name] for turn in each) for name in steps}
    return {**best, "ratio": best["unequal"] / best["equal"], "each": each, "mean_steps": float(drawn.mean())}


def run(job: Job) -> Job:
    """amsfl.run: planning, records and evaluation included."""
    trail: list[float] = []
    wall: list[float] = []

    def watch(record: Any) -> None:
        trail.append(rss_mb())
        wall.append(record.wall["seconds"])

    names = ("clients", "cohort", "steps", "batch", "rounds", "method")
    begun = time.perf_counter()
    result = simulation.run(
        dataset=rows_of(job),
        partition="iid",
        model=f"mlp:{job['hidden']}",
        watch=watch,
        **{name: job[name] for name in names},
    )
    total = sum(result.summary.steps.values())
    return {
        "setup_seconds": time.perf_counter() - begun - result.summary.wall["seconds"],
        "round_seconds": min(wall[1:]),
        "last_round_seconds": wall[-1],
        "steps_a_round": total / job["rounds"],
        "rss_mb": trail,
        "wall": wall,
        "accuracy": result.accuracy,
    }


if __name__ == "__main__":
    wanted = json.loads(sys.argv[2])
    found = {"rate": rate, "unequal": unequal, "run": run}[sys.argv[1]](wanted)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found | {"peak_mb": peak, "devices": len(jax.devices()), "jax": jax.__version__}))
