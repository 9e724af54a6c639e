"""What an accelerator makes of it: the same code, nothing changed.

    python benchmarks/gpu.py --data-dir nslkdd --out benchmarks/results/h200.json

Our side of the jobs, trials as a batch axis, unequal steps, arithmetic of less precision, and the paper's
comparison with 50 trials of every method as one batch each, all in: a process of its own, once with an empty
compilation cache and once with what the first one left. `--only` picks parts. The peers' side: run.py --gpu.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ours import JOBS, LR, measure

from amsfl import methods
from amsfl.data import Dataset, load, partition
from amsfl.engines import Orders, models, task
from amsfl.engines.jax_engine import JaxEngine
from amsfl.simulation import CustomParts, run_trials
from amsfl.simulation.components import precision
from amsfl.study import REPRODUCE, read_study

import jax  # isort: skip  # after amsfl, which sets it up

SIZES = (2000, 1, 400, 50)
CLIENTS, STEPS, BATCH, ROUNDS = 5, 20, 64, 20
# the first runs in processes of its own, before this one takes the GPU
PARTS = ("comparison", "jobs", "trials", "unequal", "precisions")
compiling = {"seconds": 0.0, "programs": 0}
longest: dict[str, float] = {}  # seconds of compiling by program


def listen(event: str, seconds: float, fun_name: str = "", **_: Any) -> None:
    if event.startswith("/jax/core/compile/"):
        compiling["seconds"] += seconds
        if event.endswith("backend_compile_duration"):
            compiling["programs"] += 1
            longest[fun_name] = longest.get(fun_name, 0.0) + seconds


def say(**what: Any) -> None:
    print(json.dumps(what), file=sys.stderr, flush=True)


def pace(data: Dataset, trials: int, steps: int = STEPS, unequal: bool = False) -> dict[str, Any]:
    """Client steps a second of FedAvg, best of three series of rounds after one that compiles."""
    parts = partition("dirichlet:0.5", data.y, CLIENTS, 0)
    network = models.make("mlp", data.x.shape[1], len(data.classes))
    job = task.make(data, network, [parts] * trials, range(trials))
    before = dict(compiling)
    engine = JaxEngine(job, methods.make("fedavg"), BATCH)
    rng, shape = np.random.default_rng(0), (trials, CLIENTS)
    who = np.broadcast_to(np.arange(CLIENTS), shape)
    plans = [rng.integers(1, 2 * steps, shape) if unequal else np.full(shape, steps) for _ in range(ROUNDS)]
    orders = [Orders(who, plan, np.full(trials, LR), job.shards.weights) for plan in plans]
    best, done = 0.0, sum(int(plan.sum()) for plan in plans)
    for _ in range(4):
        state = jax.block_until_ready(engine.start())
        begun = time.perf_counter()
        for at in range(0, ROUNDS, engine.max_span):
            some = orders[at : at + engine.max_span]
            if engine.max_span > 1:
                state = engine.at(engine.span(state, some, at)[0], len(some) - 1)
            else:
                state, _ = engine.round(state, some[0], at)
        jax.block_until_ready(state)
        best = max(best, done / (time.perf_counter() - begun))
    spent = compiling["seconds"] - before["seconds"]
    say(trials=trials, steps=steps, unequal=unequal, client_steps_per_second=best, compiling=spent)
    return {"client_steps_per_second": best, "rounds_at_once": engine.max_span, "compiling": spent}


def comparison(data: Dataset, trials: range, names: list[str]) -> dict[str, Any]:
    """Methods of `amsfl reproduce`, all of these trials at once, to the end of their runs."""
    study, found = read_study(REPRODUCE), {}
    for name in names:
        longest.clear()
        before, begun = dict(compiling), time.perf_counter()
        seeds = [study.seed + trial for trial in trials]
        results = run_trials(study.config(name), seeds, CustomParts(data))
        took = time.perf_counter() - begun
        compiled = {key: compiling[key] - before[key] for key in compiling}
        found[name] = {
            "seconds": took,
            "compiling": compiled["seconds"],
            "programs": compiled["programs"],
            "rounds": sum(len(result.rounds) for result in results),
            "accuracy": float(np.mean([result.accuracy for result in results])),
        }
        most = sorted(longest.items(), key=lambda each: -each[1])[:6]
        say(method=name, **found[name], longest={key: round(each, 2) for key, each in most})
    return found


def precisions(data: Dataset, trials: int = 10) -> dict[str, Any]:
    """The pace of 2,000 trials, and where FedAvg's trials of the comparison end, by products' precision."""
    found, study = {}, read_study(REPRODUCE)
    for name in ("float32", "strict", "tf32", "bf16"):
        config = study.config("fedavg").model_copy(update={"precision": name})
        with precision(config):
            found[name] = pace(data, 2000)
        results = run_trials(config, list(range(trials)), CustomParts(data))
        found[name]["accuracy"] = [result.accuracy for result in results]
    return found


def all_in(given: argparse.Namespace) -> dict[str, Any]:
    """The comparison, all in: from an empty cache, and from the one that this leaves.

    Methods have processes of their own, as parts of a study have, and all of them share the GPU: most of what
    is left is compiling and planning, which cores can do at the same time. With more processes than methods,
    each method's trials are parted as well.
    """
    found, names = {}, list(read_study(REPRODUCE).methods)
    groups = [names[place :: given.processes] for place in range(min(given.processes, len(names)))]
    each = -(-given.trials // max(1, given.processes // len(names)))
    parts = [
        (",".join(group), begin, min(each, given.trials - begin))
        for begin in range(0, given.trials, each)
        for group in groups
    ]
    with tempfile.TemporaryDirectory() as cache:
        own = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        own["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(round(0.9 / len(parts), 3))
        for name in ("empty", "warm"):
            begun = time.perf_counter()
            command = [sys.executable, __file__, "--inner"]
            command += ["--data-dir", given.data_dir] if given.data_dir else []
            running = [
                subprocess.Popen(
                    [*command, "--methods", group, "--first", str(first), "--trials", str(count)],
                    env=os.environ | own,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for group, first, count in parts
            ]
            told = [json.loads(part.communicate()[0]) for part in running]
            seconds = time.perf_counter() - begun
            methods_ = {
                f"{method} from {first}" if first else method: took
                for (_, first, _), some in zip(parts, told, strict=True)
                for method, took in some.items()
            }
            found[name] = {"seconds": seconds, "processes": len(parts), "methods": methods_}
            say(comparison=name, seconds=seconds, processes=len(parts))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Our side on an accelerator.")
    parser.add_argument("--data-dir", help="folder with the NSL-KDD files")
    parser.add_argument("--trials", type=int, default=50, help="of each method in the paper's comparison")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts: {', '.join(PARTS)}")
    parser.add_argument("--processes", type=int, default=7, help="that share the comparison's methods")
    parser.add_argument("--methods", default="fedavg", help="with --inner: those of this process")
    parser.add_argument("--first", type=int, default=0, help="with --inner: the first of its trials")
    parser.add_argument("--inner", action="store_true", help="a process's part of the comparison, as JSON")
    parser.add_argument("--out", type=Path, help="JSON to write")
    given = parser.parse_args()
    jax.monitoring.register_event_duration_secs_listener(listen)
    data = load("nslkdd", data_dir=given.data_dir)
    if given.inner:
        trials = range(given.first, given.first + given.trials)
        print(json.dumps(comparison(data, trials, given.methods.split(","))))
        return
    makers = {
        "jobs": lambda: (
            {name: measure(JOBS[name], data) for name in ("A", "B")}
            | {"A, 500 rounds": measure(JOBS["A"]._replace(rounds=500), data)}
        ),
        "trials": lambda: {trials: pace(data, trials) for trials in SIZES},
        "unequal": lambda: {
            "equal": pace(data, 400, 50),
            "unequal": pace(data, 400, 50, unequal=True),
        },
        "precisions": lambda: precisions(data),
        "comparison": lambda: all_in(given),
    }
    outcome: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "jax": jax.__version__}
    for name in sorted(given.only.split(","), key=PARTS.index):
        outcome[name] = makers[name]()
        outcome["device"] = jax.devices()[0].device_kind
        print(name, json.dumps(outcome[name], indent=1), flush=True)
        if given.out:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(outcome, indent=1) + "\n")


if __name__ == "__main__":
    main()
