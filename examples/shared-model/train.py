"""A model that the devices of several processes share; start this once for each, on one machine or on many.

python train.py 10.0.0.1:1234 2 0      on the machine with that address
python train.py 10.0.0.1:1234 2 1      on the other one
"""

import sys

import jax

from amsfl.engines import devices

first, processes, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
devices.configure()  # before jax starts
jax.distributed.initialize(first, processes, rank)

import amsfl  # noqa: E402

result = amsfl.run(
    method="amsfl",
    data="digits",
    model="mlp:1000-1000",
    rounds=5,
    shard_model=jax.device_count(),  # all of them: one model among all devices
    out="runs/shared" if rank == 0 else None,  # only one process gets it: all have the same record to write
)
models = result.parts.engine.start().anchor
mine = models.addressable_shards[0].data.size
print(f"Process {rank}: {mine:,} of {models.size:,} numbers here, accuracy {result.accuracy:.3f}")
