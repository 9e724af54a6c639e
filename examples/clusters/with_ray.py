"""All parts of a study on a Ray cluster (pip install ray):

python with_ray.py --parts 8 [--address auto] -- --data nslkdd --tune none --out results/big
"""

import argparse
from pathlib import Path

import ray
from part import run_part

if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--parts", type=int, default=2)
    asked.add_argument("--address", default="local", help="auto joins a running cluster")
    asked.add_argument("arguments", nargs="+", help="of amsfl compare, after --")
    told = asked.parse_args()
    ray.init(told.address, runtime_env={"working_dir": str(Path(__file__).parent)}, include_dashboard=False)
    task = ray.remote(num_cpus=1, max_retries=2)(run_part)  # a part that was cut off goes on where it was
    left = [task.remote(number, told.parts, told.arguments) for number in range(1, told.parts + 1)]
    while left:
        done, left = ray.wait(left)
        print(ray.get(done[0]), flush=True)
