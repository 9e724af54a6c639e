"""Deal NSL-KDD to sites: python deal.py [--clients 5] [--out ~/amsfl-shards] [--data nslkdd]

Writes shard-0.npz ... (one for each site) and server.npz (hold-out and KDDTest+, for the server).
"""

import argparse
from pathlib import Path

from amsfl.flower.deploy.builtin_app import deal

from amsfl.simulation import make_config

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--clients", type=int, default=5)
parser.add_argument("--out", type=Path, default=Path("~/amsfl-shards"))
parser.add_argument("--data", default="nslkdd")
parser.add_argument("--partition", default="dirichlet:0.5")
parser.add_argument("--seed", type=int, default=0)
given = vars(parser.parse_args())
out = given.pop("out").expanduser()
for path in deal(make_config({key: value for key, value in given.items() if value is not None}), out):
    print(path)
