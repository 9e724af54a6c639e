"""What a round costs as the work grows: clients, or numbers of a model; time and memory.

    python benchmarks/growth.py
    python benchmarks/growth.py --axis clients --set rounds=2    # one axis; further settings of ours.py

Every point is a process of its own (ours.py), so memory is that point's alone.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ours import JOBS

OURS = Path(__file__).with_name("ours.py")
MODELS = ("softmax", "mlp:8", "mlp:64-32", "mlp:256-128", "mlp:1024-512", "mlp:3200-3000")
# what grows, the job that it is of, and what each point sets
FEW = ("--set", "rounds=5")  # enough where a round takes long
AXES: dict[str, tuple[str, dict[int, tuple[str, ...]]]] = {
    "clients": ("B", {n: ("--set", f"clients={n}") for n in (50, 1000, 10_000, 100_000)}),
    "model": ("A", {n: ("--set", f"model={m}", *FEW[: 2 * (n > 3)]) for n, m in enumerate(MODELS)}),
}


def point(job: str, more: list[str]) -> dict[str, Any]:
    """Milliseconds of a round, client steps a second, megabytes, numbers of the model."""
    command = [sys.executable, str(OURS), "--job", job, "--repeat", "2", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    seen = json.loads(done.stdout.splitlines()[-1])
    pace = max(seen["client_steps_per_second"])
    ms = 1e3 * JOBS[job].cohort * JOBS[job].steps / pace
    return {"ms": ms, "pace": pace, "mb": seen["peak_mb"], "numbers": seen["numbers"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--axis", action="append", choices=AXES)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    print("| | | ms a round | client steps a second | MB |\n| --- | --- | --- | --- | --- |")
    for axis in given.axis or AXES:
        job, points = AXES[axis]
        for at, more in points.items():
            extra = [word for each in given.set for word in ("--set", each)]
            seen = point(job, [*more, *extra])
            what = f"{seen.get('numbers', 0):,} numbers" if axis == "model" else f"{at:,}"
            cells = str(seen.get("failed"))
            if "ms" in seen:
                cells = f"{seen['ms']:.3g} | {seen['pace']:,.0f} | {seen['mb']:,.0f}"
            print(f"| {axis} | {what} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
