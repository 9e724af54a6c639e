"""The mechanism through Flower."""

from app import shard
from normalised import normalised

from amsfl.flower import jax_client, server_app

client = jax_client(shard, own=[normalised()])
server = server_app(
    method="fedavg", privacy=normalised(), epsilon=40.0, clients=3, rounds=2, steps=2, batch=64, lr=0.5
)
