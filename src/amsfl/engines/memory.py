"""Whether a method's client state fits, said with a number before the run starts."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from amsfl.core import UserError
from amsfl.core.records import Array, Tree
from amsfl.engines.devices import Program, parts
from amsfl.engines.task import Task
from amsfl.methods import Method

VECTORS = 6  # of a model's size that a client at work has: start, model, change, what it sends and reads
MEMINFO = Path("/proc/meminfo")


def state_bytes(task: Task, method: Method) -> int:
    """Bytes of client state, which grow with clients x dim x trials (0 for methods without)."""
    probe: Array = jax.eval_shape(
        lambda x: method.arithmetic.init(x)[1], jax.ShapeDtypeStruct((task.dim,), task.dtype)
    )
    trials, clients = task.shards.size.shape
    return int(trials * clients * probe.shape[0] * np.dtype(task.dtype).itemsize)


def copies(mesh: Mesh) -> float:
    """How often state lies in one memory: virtual CPU devices share the machine's, others a model."""
    local = mesh.local_devices
    return (len(local) if local[0].platform == "cpu" else 1) / parts(mesh)


def intermediate_bytes(function: Program, *shapes: Tree) -> int:
    """What all intermediate values of a function take: more than it needs at once, and never less."""
    return _bytes(jax.make_jaxpr(function)(*shapes).jaxpr)


def _bytes(jaxpr: Any) -> int:
    total = 0
    for step in jaxpr.eqns:
        inner = [getattr(part, "jaxpr", part) for part in step.params.values()]
        within = sum(_bytes(part) for part in inner if hasattr(part, "eqns"))
        own = sum(int(np.prod(out.aval.shape)) * out.aval.dtype.itemsize for out in step.outvars)
        total += max(within, own)
    return total


def room_for(each: float, most: int) -> int:
    """How many things of that many bytes fit side by side in half of a GPU's memory, `most` at most.

    Of all of it, not of what is free just now: a packing that changed from start to start would change bits.
    """
    half = half_a_gpu()
    return most if half is None else int(np.clip(half // max(each, 1), 1, most))


def half_a_gpu() -> int | None:
    """Bytes; None on a CPU."""
    stats = jax.local_devices()[0].memory_stats()
    return int(stats["bytes_limit"]) // 2 if stats and "bytes_limit" in stats else None


def pieces(task: Task, method: Method, batch: int) -> int:
    """Parts of a minibatch that are taken one after another, so that one client's step fits into a GPU."""
    half, count = half_a_gpu(), 1
    while half is not None and lane_bytes(task._replace(pieces=count), method, batch) > half:
        if batch % (2 * count):
            break
        count *= 2
    return count


def lane_bytes(task: Task, method: Method, batch: int) -> int:
    """What a client that is at work takes: its vectors, and all that a step makes on its way."""
    params = task.shapes
    rows = batch // task.pieces
    x = jax.ShapeDtypeStruct((rows, *task.x.shape[1:]), task.dtype)
    y = jax.ShapeDtypeStruct((rows,), task.y.dtype)

    def loss(params: Tree, x: Array, y: Array) -> Tree:
        return task.loss(task.model.apply(params, x), y).mean()

    step = intermediate_bytes(jax.grad(loss), params, x, y)
    beside = batch if method.private_rows else 1  # rows whose gradients lie side by side
    numbers = batch * int(np.prod(task.x.shape[1:])) + (VECTORS + beside) * task.dim
    return step + numbers * int(np.dtype(task.dtype).itemsize)


def available_bytes() -> int | None:
    """Free memory of this process's first device, or of the machine; None where it cannot be asked."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    try:
        for line in MEMINFO.read_text().splitlines():  # unlike free pages, this counts what caches give back
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def needed_bytes(
    task: Task, method: Method, held: float = 1, cohort: int | None = None, workers: int = 1
) -> int:
    """What a round holds of client state: everyone's (donated, so once), the cohort's with every worker, and
    those summed; `held` times that. Without a cohort all clients count."""
    clients = task.shards.size.shape[1]
    return int(held * state_bytes(task, method) // clients * (clients + (workers + 1) * (cohort or clients)))


def check_fits(
    task: Task, method: Method, held: float = 1, cohort: int | None = None, workers: int = 1
) -> None:
    """Refuse, with the numbers, client state that cannot fit."""
    need, have = needed_bytes(task, method, held, cohort, workers), available_bytes()
    if have is not None and need > have:
        raise UserError(
            f"Method {method.name!r} keeps a state of {task.dim:,} numbers for each of "
            f"{task.shards.size.shape[1]:,} clients: {need / 2**30:.1f} GiB with its working copies, and "
            f"{have / 2**30:.1f} GiB are free; use fewer clients, a smaller model or a "
            "method without state."
        )
