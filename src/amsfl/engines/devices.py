"""How jax is set up: one place, before jax is imported and before it starts its backend.

Measured on two cores (client steps a second, jobs A and B of benchmarks/): one host device per core
with lanes sharded over them and XLA's own threads off is 1.5 and 1.9 times one device with threads.
"""

import os
import sys
from typing import Any

import numpy as np
import pooch

# XLA reads its flags once, when jax is imported; whoever imported jax first keeps the threads it has
if "jax" not in sys.modules and "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "lanes"
CORES_AT_MOST = 16  # beyond this the collectives at the end of a round cost more than they spread


def configure() -> None:
    """One CPU device per core, compiled programs kept between runs.

    Does nothing to a jax that is already running, and respects XLA_FLAGS and JAX_* settings.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(pooch.os_cache("amsfl") / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    count = max(1, min(cores(), CORES_AT_MOST))
    # XLA gives every device a thread whatever this says; more of them only get in each other's way
    # (32,000, 25,000, 18,000 steps a second with 1, 2, 3 here)
    os.environ.setdefault("PJRT_NPROC", "1")
    try:
        if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
            jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:  # the caller's jax runs already: its devices are taken as they are
        pass


def cores() -> int:
    """Cores that this process may use (containers and taskset often give fewer than there are)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mesh(devices: int | None = None) -> Mesh:
    """The devices that lanes are sharded over: all there are, of all processes, unless told otherwise."""
    return Mesh(np.array(jax.devices()[:devices]), (AXIS,))


def put(tree: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    """Values that every process holds in full, as global arrays over the mesh: each takes its own part.

    Unlike device_put across processes this does not compare the values over the network first; they are
    the same by construction, drawn from the same seeds.
    """
    sharding = NamedSharding(mesh, spec)
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def one(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.device_put(leaf, sharding)
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    return jax.tree.map(one, tree)


def within_reach(parts: Any) -> Any:
    """What each device found, [devices, ...] and one part on each, where a program on all of them can sum it.

    CPU devices of one process meet on the host, as [1, ...]: XLA's own sum between them needs a thread that
    waits for each, and stood still or died with none to spare (in 3 of 4 series of 600 short rounds).
    Other devices have collectives of their own, which the compiler puts where the sum is.
    """

    def one(leaf: jax.Array) -> Any:
        shards = leaf.addressable_shards
        if len(shards) == 1 or not leaf.is_fully_addressable or shards[0].device.platform != "cpu":
            return leaf
        first, *rest = (np.asarray(shard.data) for shard in shards)
        return sum(rest, start=first)

    return jax.tree.map(one, parts)


def default_lanes() -> int:
    """Jobs side by side on one device: a CPU core does them one by one, a GPU wants many."""
    return 1 if jax.default_backend() == "cpu" else 512
