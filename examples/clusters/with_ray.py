"""The methods of a comparison on a Ray cluster, one a task (pip install ray):

python with_ray.py --methods fedavg,amsfl [--address auto] --out /shared/big -- --data nslkdd --trials 50
"""

import argparse
import subprocess
import sys
from pathlib import Path

import ray


def compare(method: str, out: Path, arguments: list[str]) -> str:
    """As a command of its own: the process that has jax ends with it."""
    command = [sys.executable, "-m", "amsfl", "compare", "--methods", method, "--out", str(out)]
    subprocess.run([*command, *arguments], check=True)
    return f"{method} is done"


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--methods", required=True)
    asked.add_argument("--address", default="local", help="auto joins a running cluster")
    asked.add_argument("--out", required=True, type=Path, help="an absolute path that all workers share")
    asked.add_argument("arguments", nargs="+", help="of amsfl compare, after --")
    told = asked.parse_args()
    ray.init(told.address, include_dashboard=False)
    task = ray.remote(num_cpus=1, max_retries=2)(compare)  # one that was cut off goes on where it was
    left = [task.remote(method, told.out / method, told.arguments) for method in told.methods.split(",")]
    while left:
        done, left = ray.wait(left)
        print(ray.get(done[0]), flush=True)
    print(f"See them: amsfl report {told.out}/*")
