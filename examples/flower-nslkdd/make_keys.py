"""Certificates and keys for a federation: python make_keys.py superlink.example.org [--nodes 5] [--out keys]

ca.pem goes to every machine; superlink.pem and superlink.key stay on the server; supernode-I.key goes to
site I alone, and its supernode-I.pub is registered with `flwr supernode register`.
"""

import argparse
from pathlib import Path

from amsfl.core import UserError
from amsfl.flower.deploy import certificates

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("hosts", nargs="*", default=["localhost", "127.0.0.1"], help="the server's names")
parser.add_argument("--nodes", type=int, default=5)
parser.add_argument("--out", type=Path, default=Path("keys"))
given = parser.parse_args()
try:
    for path in certificates.make(given.out, given.nodes, given.hosts):
        print(*path if isinstance(path, tuple) else [path], sep="\n")
except UserError as error:
    parser.exit(1, f"{error}\n")
