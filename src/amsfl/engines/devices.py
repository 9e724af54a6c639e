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
THREADS = 4  # of XLA's pools for each device: see configure


def configure() -> None:
    """One CPU device per core, compiled programs kept between runs.

    Does nothing to a jax that is already running, and respects XLA_FLAGS and JAX_* settings.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(pooch.os_cache("amsfl") / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    count = max(1, min(cores(), CORES_AT_MOST))
    # A device that waits for the sum over devices blocks one of XLA's threads, and by default there are only
    # as many as cores: two devices on two cores stood still for 20 s or died after 40 (in 3 of 4 series of
    # 600 short rounds; in none of 4 with spare threads).
    os.environ.setdefault("PJRT_NPROC", str(max(THREADS * count, os.cpu_count() or 1)))
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


def default_lanes() -> int:
    """Jobs side by side on one device: a CPU core does them one by one, a GPU wants many."""
    return 1 if jax.default_backend() == "cpu" else 512
