"""Whether a method's client state fits, said with a number before the run starts; how many lanes do."""

import os
from typing import Any

import jax
import numpy as np

from amsfl.core import UserError
from amsfl.core.records import Array, Tree
from amsfl.engines.devices import Program
from amsfl.engines.task import Task
from amsfl.methods import Federation, Method
from amsfl.protocol import initial_client_state

VECTORS = 6  # of a model's size that a client at work has: start, model, change, what it sends and reads


def state_bytes(task: Task, method: Method) -> int:
    """Bytes of client state, which grow with clients x dim x trials (0 for methods without)."""
    first = jax.ShapeDtypeStruct((task.dim,), task.dtype)
    probe: Array = jax.eval_shape(lambda x: initial_client_state(Federation(method), x)[0], first)
    trials, clients = task.shards.size.shape
    return int(trials * clients * probe.shape[0] * np.dtype(task.dtype).itemsize)


def check_fits(task: Task, method: Method, cohort: int | None = None) -> None:
    """Refuse, with the numbers, client state that cannot fit: everybody's, and a cohort's twice."""
    if not hasattr(os, "sysconf"):  # on Windows
        return
    clients, have = task.shards.size.shape[1], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    need = state_bytes(task, method) // clients * (clients + 2 * (cohort or clients))
    if need > have:
        raise UserError(
            f"Method {method.name!r} keeps a state of {task.dim:,} numbers for each of {clients:,} clients: "
            f"{need / 2**30:.1f} GiB with its working copies, and this machine has {have / 2**30:.1f}; use "
            "fewer clients, a smaller model or a method without state."
        )


def room_for(each: float, most: int) -> int:
    """How many things of that many bytes fit side by side in half of a GPU's memory, `most` at most.

    Of all of it, not of what is free just now: waves that changed from start to start would change bits.
    """
    stats = jax.local_devices()[0].memory_stats()
    if not stats or "bytes_limit" not in stats:
        return most
    return int(np.clip(int(stats["bytes_limit"]) // 2 // max(each, 1), 1, most))


def lane_bytes(task: Task, federation: Federation, batch: int) -> int:
    """What a client that is at work takes: its vectors, and all that a step makes on its way."""
    x = jax.ShapeDtypeStruct((batch, *task.x.shape[1:]), task.dtype)
    y = jax.ShapeDtypeStruct((batch,), task.y.dtype)

    def loss(params: Tree, x: Array, y: Array) -> Tree:
        return task.loss(task.model.apply(params, x), y).mean()

    step = intermediate_bytes(jax.grad(loss), task.shapes, x, y)
    beside = batch if federation.private_rows else 1  # rows whose gradients lie side by side
    numbers = batch * int(np.prod(task.x.shape[1:])) + (VECTORS + beside) * task.dim
    return step + numbers * int(np.dtype(task.dtype).itemsize)


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
