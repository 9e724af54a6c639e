"""How time and memory of our engine grow, on this machine, as ratios and curves of one run.

    python benchmarks/scaling.py             # some minutes; writes the picture, the JSON and the table
    python benchmarks/scaling.py --quick     # a minute, small sizes, prints only

Every point is a process of its own, one after another (scaling_point.py), so peak memory is the point's.
Nothing else should run on the machine meanwhile; the load before the start is written down.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from scaling_text import document
from table import machine

HERE = Path(__file__).parent
BASE = {"clients": 1000, "cohort": 50, "steps": 10, "batch": 32, "hidden": "64-32", "trials": 1, "rounds": 20}
# one thing grows at a time; rounds shrink where the work of one grows
CURVES: dict[str, list[dict[str, Any]]] = {
    "clients": [{"clients": n} for n in (100, 1_000, 10_000, 100_000)],
    "steps": [{"steps": t, "rounds": max(2, 200 // t)} for t in (1, 4, 16, 64)],
    "cohort": [{"clients": 4_000, "cohort": c, "rounds": max(2, 1000 // c)} for c in (10, 50, 250, 1_000)],
    "hidden": [{"hidden": h, "rounds": 4} for h in ("16-16", "64-32", "256-128", "1024-512")],
    "trials": [{"trials": n, "rounds": max(2, 20 // n)} for n in (1, 10, 50)],
}
WITH_STATE = [{"clients": n, "method": "scaffold"} for n in (100, 1_000, 10_000)]
UNEQUAL = {
    "50 clients": {"clients": 50, "rounds": 3, "batch": 64},
    "5 clients, 10 trials": {"clients": 5, "cohort": 5, "trials": 10, "rounds": 3, "batch": 64},
}
TRIALS = [
    {"clients": 5, "cohort": 5, "steps": 20, "batch": 64, "trials": n, "rounds": r}
    for n, r in ((1, 50), (10, 5), (50, 2))
]
SCALE = {"clients": 100_000, "cohort": 1_000, "rounds": 12}


def quick() -> None:
    """Sizes that show that the command works and nothing else."""
    for name in CURVES:
        CURVES[name] = CURVES[name][:2]
    del WITH_STATE[1:], TRIALS[2:], UNEQUAL["5 clients, 10 trials"]
    SCALE.update(clients=2_000, cohort=100, rounds=3)


def point(kind: str, **changes: Any) -> dict[str, Any]:
    """One measurement in a process of its own."""
    job = BASE | changes
    command = [sys.executable, str(HERE / "scaling_point.py"), kind, json.dumps(job)]
    # compiled anew by everyone: what comes from the cache takes less memory at its peak
    env = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env)
    if done.returncode:
        sys.exit(f"{kind} {changes}: {done.stderr[-2000:]}")
    found = job | json.loads(done.stdout.splitlines()[-1])
    print(kind, changes, {k: v for k, v in found.items() if isinstance(v, float)}, flush=True)
    return found


def measure() -> dict[str, Any]:
    return {
        "unequal": {name: point("unequal", **job) for name, job in UNEQUAL.items()},
        "trials": [point("rate", **job) for job in TRIALS],
        "scale": {
            "engine": point("rate", **SCALE),
            "run fedavg": point("run", method="fedavg", **SCALE),
            "run amsfl": point("run", method="amsfl", **SCALE),
        },
        "curves": {name: [point("rate", **job) for job in jobs] for name, jobs in CURVES.items()},
        "with state": [point("rate", **job) for job in WITH_STATE],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory against clients, steps, cohort, ...")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing written")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scaling.json")
    given = parser.parse_args()
    if given.quick:
        quick()
    outcome = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), **measure()}
    outcome["machine"]["load_after"] = machine()["load"]
    text = document(outcome)
    print("\n" + text)
    if not given.quick:
        from scaling_picture import draw

        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(outcome, indent=1) + "\n")
        given.out.with_suffix(".md").write_text(text)
        draw(outcome, HERE / "scaling.png")


if __name__ == "__main__":
    main()
