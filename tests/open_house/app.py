"""The same four through Flower: digits dealt to three sites, our jax client."""

import numpy as np
from central import central
from damped import damped
from halves import halves
from rising import rising

from amsfl import data
from amsfl.flower import Shard, jax_client, server_app


def shard(context) -> Shard:
    source = data.load("digits")
    rows = np.arange(len(source.y))[int(context.node_config["partition-id"]) :: 3]
    return Shard(source.x[rows], source.y[rows], 10, "softmax")


client = jax_client(shard, own=[damped(), halves()])
server = server_app(
    method=damped(), policy=rising(), robust=central(), transmit=halves(), clients=3, rounds=2, batch=16
)
