"""How jax is set up: one place, before jax is imported and before it starts its backend.

jax takes more than a second to import, and a small run needs none of it: what a run of the loop engine passes
imports it inside of functions.

On the CPU there is one device, and one running call per core: 1.7 to 1.9 times one alone on two cores. A
client step is a chain of operations of microseconds. Left to itself, XLA shares each of them out over a pool
of threads, which takes 1.6 times the processor time and is slower (75 instead of 48 microseconds in job A of
benchmarks/).
"""

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from platform import machine
from typing import TYPE_CHECKING, Any, TypeVar

from amsfl.record.disk import user_cache

if TYPE_CHECKING:
    import jax

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
Options = dict[str, str | bool]  # of the compiler
Program = Callable[..., Any]  # compiled or not
Made = TypeVar("Made")
# A GPU's own graphs hold whole loops, so that the host is not asked after every turn if there is another one:
# a step of five small clients on an H200 takes 33 microseconds instead of 48
COMMANDS = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE"
GRAPHS: Options = {"xla_gpu_enable_command_buffer": COMMANDS, "xla_gpu_graph_min_graph_size": "1"}
X86 = ("x86_64", "AMD64")
WORKERS_AT_MOST = 16


def configure() -> None:
    """Compiled programs are kept between runs.

    Does nothing to a jax that is already running, and respects XLA_FLAGS and JAX_* settings.
    """
    options: dict[str, str | float] = {}
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        options["jax_compilation_cache_dir"] = str(user_cache() / "jax")
        # small programs, too: they add up to 0.4 s of every start
        options["jax_persistent_cache_min_compile_time_secs"] = 0.0
    if "jax" in sys.modules:
        for name, value in options.items():
            sys.modules["jax"].config.update(name, value)
        return
    os.environ |= {name.upper(): str(value) for name, value in options.items()}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA's own alarms, of which no user can do anything
    for name, value in FLAGS.items():
        if name not in (flags := os.environ.get("XLA_FLAGS", "")):
            os.environ["XLA_FLAGS"] = f"{flags} --{name}={value}".strip()


def call_in_place() -> None:
    """Let calls on the CPU run where they are made, before jax starts its backend: no variable says it."""
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)


def on_cpu() -> bool:
    """Whether there is no GPU; jax is only asked where it has a plugin, without which it knows none."""
    if os.environ.get("JAX_PLATFORMS") == "cpu" or not (find_spec("jax_plugins") or find_spec("libtpu")):
        return True
    import jax

    return jax.default_backend() == "cpu"


def cores() -> int:
    """Cores that this process may use (containers and taskset often give fewer than there are)."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, WORKERS_AT_MOST)


def chosen() -> "list[jax.Device]":
    """Every GPU, or one CPU device, whose calls run side by side."""
    import jax

    call_in_place()
    found: list[jax.Device] = jax.local_devices()
    return found[:1] if found[0].platform == "cpu" else found


def jit(function: Program, light: bool) -> Program:
    """jax.jit of a program whose loops end when their data says so, of a model whose step is light or not."""
    import jax

    gpu = jax.default_backend() in ("gpu", "cuda")
    return jax.jit(function, compiler_options=GRAPHS if gpu else compiler_options(light))


def compiler_options(light: bool) -> Options:
    """How a CPU's program of clients' steps is compiled: light ones are calls more than arithmetic.

    Light ones take a fifth less time to compile at LLVM's second level than at the third, and as long to run,
    to the bit; job C of benchmarks/, which is not light, would take 1.3 times as long.
    For others XLA keeps to vectors of 256 bits unless asked; with 512, where a processor has them, the steps
    of two workers on a Xeon take 0.72 (job D), 0.82 (F) and 0.98 (C) of the time.
    """
    wanted: Options = {"xla_backend_optimization_level": "2"} if light else {}
    if machine() in X86 and not light:
        wanted = {"xla_cpu_prefer_vector_width": "512"}
    if not on_cpu():
        return {}
    flags = os.environ.get("XLA_FLAGS", "")  # by the user, who then decides
    return {name: value for name, value in wanted.items() if name not in flags}


def kept(make: Callable[..., Made]) -> Callable[..., Made]:
    """`make` with its latest results kept, so that the next run or block of trials of a task traces nothing;
    not of arguments without a hash."""
    remembered = lru_cache(32)(make)

    def get(*of: Any) -> Made:
        try:
            hash(of)
        except TypeError:
            return make(*of)
        return remembered(*of)

    return get
