"""What not waiting costs: job B synchronous and asynchronous in one process, and memory with many clients.

    python benchmarks/asynchronous.py pace     # 50 of 1,000 clients: all, and buffer:10, in turns
    python benchmarks/asynchronous.py memory   # 50 under way of 1,000 and of 100,000 that come and go

Whole federations are measured, planning, queue and records included, without evaluations; the first
repetition of each warms up and does not count.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

NEVER = 10**9  # rounds between evaluations
JOB = {
    "clock": "makespan",
    "profile": "lognormal:0.02,0.8",
    "cohort": 50,
    "partition": "dirichlet:0.5",
    "steps": 10,
    "batch": 32,
    "details": False,
    "eval_every": NEVER,
}
WAYS = {
    "synchronous": {"method": "fedavg", "round_end": "all", "rounds": 40},
    "asynchronous": {"method": "fedbuff", "round_end": "buffer:10", "rounds": 200},
}


def pace(repeat: int, data_dir: str | None) -> dict[str, Any]:
    """Client steps a second of both, best of `repeat`, in turns on the same machine."""
    from amsfl.data import load

    data, rates = load("nslkdd", data_dir=data_dir), {way: list[float]() for way in WAYS}
    runs = {way: _federation(data, JOB | settings | {"clients": 1000}) for way, settings in WAYS.items()}
    for _ in range(repeat + 1):
        for way, run in runs.items():
            began = time.perf_counter()
            steps = run()
            rates[way].append(steps / (time.perf_counter() - began))
    best = {way: max(each[1:]) for way, each in rates.items()}
    return {"client_steps_per_second": best, "ratio": best["asynchronous"] / best["synchronous"]}


def _federation(data: Any, settings: dict[str, Any]) -> Any:
    """A function that runs all rounds from the start and returns the client steps that came in."""
    from amsfl.settings.custom import CustomParts
    from amsfl.simulation import make_config
    from amsfl.simulation.rounds import begin, rounds
    from amsfl.simulation.setup import assemble

    last = settings["rounds"]
    parts = assemble(
        [make_config(settings | {"rounds": last + 1})], CustomParts(data)
    )  # the end would evaluate

    def run() -> int:
        state, trials = begin(parts)
        for state, _ in rounds(parts, state, trials):  # noqa: B007, B020 (the state moves on)
            if trials[0].round == last:
                break
        return sum(trials[0].steps)

    return run


def memory(moves: int) -> dict[str, Any]:
    """Peak memory by number of clients, each in a process of its own."""
    found = {}
    for clients in (1_000, 100_000):
        told = subprocess.run(
            [sys.executable, __file__, "one", "--clients", str(clients), "--moves", str(moves)],
            capture_output=True,
            text=True,
            check=True,
        )
        found[f"{clients:,} clients"] = json.loads(told.stdout.splitlines()[-1])
    return found


def one(clients: int, moves: int) -> dict[str, Any]:
    """A run of rows drawn for the purpose, two a client: peak memory after a tenth of the moves, and at the
    end."""
    import numpy as np

    from amsfl.data import Dataset

    rng = np.random.default_rng(0)
    rows = 200_000  # as many for all, so that clients are all that differs
    y = rng.integers(0, 2, rows).astype(np.int32)
    x = rng.normal(size=(rows, 8)).astype(np.float32) + y[:, None]
    data = Dataset("drawn", x, y, {"holdout": (x[:100], y[:100])}, ("no", "yes"), tuple("abcdefgh"))
    weather = {"availability": "chain:20,5", "jitter": 0.3, "failure": 0.02}
    settings = {"clients": clients, "model": "softmax", "partition": "iid", "rounds": moves, **weather}
    marks: dict[str, float] = {}
    from amsfl.settings.custom import CustomParts
    from amsfl.simulation import make_config
    from amsfl.simulation.rounds import begin, rounds
    from amsfl.simulation.setup import assemble

    parts = assemble([make_config(JOB | WAYS["asynchronous"] | settings)], CustomParts(data))
    state, trials = begin(parts)
    began = 0.0
    for state, _ in rounds(parts, state, trials):  # noqa: B007, B020 (the state moves on)
        if trials[0].round == moves // 10:
            marks["mb_after_a_tenth"], began = _peak(), time.perf_counter()
    seconds = time.perf_counter() - began
    return marks | {"mb_at_the_end": _peak(), "moves_a_second": (moves - moves // 10) / seconds}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["pace", "memory", "one"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--moves", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--data-dir")
    told = parser.parse_args()
    if told.what == "pace":
        found = pace(told.repeat, told.data_dir)
    else:
        found = memory(told.moves) if told.what == "memory" else one(told.clients, told.moves)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
