"""How jax is set up: one place, before jax is imported and before it starts its backend.

On the CPU there is one device, and one running call per core: 1.7 to 1.9 times one alone on two cores. A
client step is a chain of operations of microseconds. Left to itself, XLA shares each of them out over a pool
of threads, which takes 1.6 times the processor time and is slower (75 instead of 48 microseconds in job A of
benchmarks/). Virtual devices, one per core, wait for each other where threads need not.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from platform import machine
from typing import Any

import numpy as np
import pooch

from amsfl.core.records import Array, Number, Tree

# XLA reads its flags once, when jax is imported; if it was imported before, its settings stay
FLAGS = {
    "xla_cpu_multi_thread_eigen": "false",  # matrix products of one step: too small to share between threads
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",  # and so are its elementwise loops
    # A step's operations in an order that takes little memory. The usual one leaves many ready at once, which
    # XLA hands to a pool of threads: all workers' steps then wander from core to core, away from their caches
    # (two workers on a Xeon: steps of jobs C, D and F took up to a quarter more processor time than alone)
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
    # a GPU's products by rule, not by what was fastest when the program was compiled: that took most of the
    # compiling, and another start, which measures anew, came to other bits
    "xla_gpu_autotune_level": "0",
    # and by NVIDIA's rule: XLA's own kernels for products, chosen unmeasured, made a transformer's step three
    # times as long (job D of benchmarks/ on an H200)
    "xla_gpu_enable_triton_gemm": "false",
}
if "jax" not in sys.modules:
    for name, value in FLAGS.items():
        if name not in (flags := os.environ.get("XLA_FLAGS", "")):
            os.environ["XLA_FLAGS"] = f"{flags} --{name}={value}".strip()

import jax  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

from amsfl.core import UserError  # noqa: E402

Options = dict[str, str | bool]  # of the compiler
Program = Callable[..., Any]  # compiled or not
AXIS = "lanes"
MODEL = "model"  # the axis of devices that share a model, a part of every layer on each
PIECE = 2**24  # bytes of a shared array that are brought together on a device at once
# A GPU's own graphs hold whole loops, so that the host is not asked after every turn if there is another one:
# a step of five small clients on an H200 takes 33 microseconds instead of 48
COMMANDS = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE"
GRAPHS = {"xla_gpu_enable_command_buffer": COMMANDS, "xla_gpu_graph_min_graph_size": "1"}
# a first model takes a third of the time to compile: same bits
LIGHTLY: Options = {"xla_backend_optimization_level": "1"}
if jax.__version_info__ < (0, 11):  # newer ones no longer have the older emitters, which compile sooner
    LIGHTLY["xla_cpu_use_fusion_emitters"] = False
X86 = ("x86_64", "AMD64")
WORKERS_AT_MOST = 16  # each holds a sum of its own, and all of these meet at the end of a round


def configure() -> None:
    """Calls on the CPU run where they are made; compiled programs are kept between runs.

    Does nothing to a jax that is already running, and respects XLA_FLAGS and JAX_* settings.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(pooch.os_cache("amsfl") / "jax"))
        # small programs, too: they add up to 0.4 s of every start
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:
        jax.config.update("jax_cpu_enable_async_dispatch", False)


def cores() -> int:
    """Cores that this process may use (containers and taskset often give fewer than there are)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mesh(devices: int | None = None, parts: int = 1) -> Mesh:
    """The devices that lanes are sharded over: all devices of all processes, or the first `devices`.

    A lane is one device, or `parts` of them that share each model between them.
    """
    chosen = jax.devices()[:devices]
    if len(chosen) % parts:
        raise UserError(
            f"Each {parts} devices are to share a model, and the number of devices is {len(chosen)}; start "
            "another number of processes or devices, or change --shard-model."
        )
    return Mesh(np.array(chosen).reshape(-1, parts), (AXIS, MODEL))


def lanes(mesh: Mesh) -> int:
    """How many devices, or groups that share a model, work on jobs of their own."""
    return int(mesh.shape[AXIS])


def parts(mesh: Mesh) -> int:
    """How many devices share a model."""
    return int(mesh.shape[MODEL])


def constrain_sharding(array: jax.Array, spec: PartitionSpec) -> jax.Array:
    """An array whose layout is fixed for the compiler, in programs in which devices share a model."""
    shared = jax.sharding.get_abstract_mesh().shape.get(MODEL, 1) > 1
    return jax.lax.with_sharding_constraint(array, spec) if shared else array


def sharded(function: Program, mesh: Mesh, in_specs: Tree, out_specs: Tree) -> Program:
    """jax.shard_map over the lanes; within one, where devices share a model, the compiler parts the work."""
    axes = {AXIS} if parts(mesh) > 1 else {AXIS, MODEL}
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=axes)


def jit(function: Program, mesh: Mesh, light: bool, **options: Any) -> Program:
    """jax.jit of a program whose loops end when their data says so, of a model whose step is light or not."""
    gpu = mesh.local_devices[0].platform in ("gpu", "cuda")
    return jax.jit(function, compiler_options=GRAPHS if gpu else compiler_options(mesh, light), **options)


def compiler_options(mesh: Mesh, light: bool) -> Options:
    """How a CPU's program of clients' steps is compiled: light ones are calls more than arithmetic.

    Light ones take a fifth less time to compile at LLVM's second level than at the third, and as long to run,
    to the bit; job C of benchmarks/, which is not light, would take 1.3 times as long.
    For others XLA keeps to vectors of 256 bits unless asked; with 512, where a processor has them, the steps
    of two workers on a Xeon take 0.72 (job D), 0.82 (F) and 0.98 (C) of the time.
    """
    wanted: Options = {"xla_backend_optimization_level": "2"} if light else {}
    if machine() in X86 and not light:
        wanted = {"xla_cpu_prefer_vector_width": "512"}
    if mesh.local_devices[0].platform != "cpu":
        return {}
    flags = os.environ.get("XLA_FLAGS", "")  # by the user, who then decides
    return {name: value for name, value in wanted.items() if name not in flags}


def jit_small(function: Program, mesh: Mesh | None = None, **options: Any) -> Program:
    """jax.jit of a program that takes little time: on a CPU it is not polished for longer than it runs."""
    cpu = mesh.local_devices[0].platform == "cpu" if mesh else jax.default_backend() == "cpu"
    return jax.jit(function, compiler_options=LIGHTLY if cpu else None, **options)


def workers(mesh: Mesh) -> int:
    """Calls to run at once: on the CPU one per core that no device of its own uses."""
    local = mesh.local_devices
    if local[0].platform != "cpu" or parts(mesh) > 1:  # devices that share a model make one call together
        return 1
    return max(1, min(cores() // len(local), WORKERS_AT_MOST))


def put(tree: Tree, mesh: Mesh, spec: PartitionSpec) -> Tree:
    """Values that every process holds in full, as global arrays over the mesh: each takes its own part.

    Unlike device_put across processes this does not compare the values over the network first; they are
    the same by construction, drawn from the same seeds.
    """
    sharding = NamedSharding(mesh, spec)
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def one(leaf: Tree) -> Tree:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.device_put(leaf, sharding)
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    return jax.tree.map(one, tree)


def gather(array: Array) -> Array:
    """An array on the host, whatever process or device holds which part of it; all processes have to ask.

    What other processes hold comes piece by piece: no device may have room for all of it.
    """
    if not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    mesh = array.sharding.mesh  # type: ignore[attr-defined]  # of a NamedSharding
    replicated, count = NamedSharding(mesh, PartitionSpec()), parts(mesh)
    shape = (*array.shape[:-1], count, array.shape[-1] // count)
    host = np.empty(shape, array.dtype)
    step = max(1, PIECE // max(1, host[..., :1].nbytes))

    @partial(jax.jit, static_argnums=2, out_shardings=replicated)
    def piece(array: jax.Array, at: Number, size: int) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(array.reshape(shape), at, size, axis=-1)

    for at in range(0, shape[-1], step):
        size = min(step, shape[-1] - at)
        host[..., at : at + size] = piece(array, np.int32(at), size)
    return host.reshape(array.shape)


def on_mesh(results: Tree, mesh: Mesh) -> Tree:
    """What each device found, [devices, ...] and one part on each, where a program on all of them can sum it.

    Virtual CPU devices of one process meet on the host, as [1, ...]: XLA's own sum between them needs threads
    that wait for each other, and stood still or died with none to spare (3 of 4 series of 600 short rounds).
    Other devices have collectives of their own, which the compiler puts where the sum is.
    """

    local = mesh.local_devices
    if lanes(mesh) == 1 or parts(mesh) > 1 or len(local) < mesh.size or local[0].platform != "cpu":
        return results

    def one(leaf: jax.Array) -> Tree:
        first, *rest = (np.asarray(shard.data) for shard in leaf.addressable_shards)
        return sum(rest, start=first)

    return jax.tree.map(one, results)


def summed(parts: list[Tree]) -> Tree:
    """The workers' parts, [devices, ...] each, as one: always in the same order."""
    return jax.tree.map(lambda *part: sum(each.sum(0) for each in part), *parts)


def default_lanes(mesh: Mesh, jobs: int, room: Callable[[], int]) -> int | None:
    """Jobs side by side on one device: a GPU takes all that it has room for; for a CPU the plan decides.

    Lanes without a job are worked through all the same, so there are no more than jobs.
    """
    if mesh.local_devices[0].platform != "cpu":
        return min(room(), -(-jobs // lanes(mesh)))
    return None if lanes(mesh) == 1 else 1
