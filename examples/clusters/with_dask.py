"""All parts of a study on a Dask cluster (pip install distributed):

python with_dask.py --parts 8 [--scheduler tcp://10.0.0.1:8786] -- --data nslkdd --tune none --out results/big
"""

import argparse

from dask.distributed import Client, LocalCluster, as_completed
from part import run_part

if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--parts", type=int, default=2)
    asked.add_argument("--scheduler", help="of a running cluster; without it one is started on this machine")
    asked.add_argument("arguments", nargs="+", help="of amsfl compare, after --")
    told = asked.parse_args()
    # a part uses all the cores it is given: one at a time on each worker
    where = told.scheduler or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with Client(where) as client:
        client.upload_file(run_part.__globals__["__file__"])
        numbers = range(1, told.parts + 1)
        futures = client.map(run_part, numbers, of=told.parts, arguments=told.arguments, pure=False)
        for future in as_completed(futures):
            print(future.result(), flush=True)
