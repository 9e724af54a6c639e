"""Whether a method's client state fits, said with a number before the run starts."""

import os
from typing import Any

import jax
import numpy as np

from amsfl.core import UserError
from amsfl.engines.task import Task
from amsfl.methods import Method


def state_bytes(task: Task, method: Method) -> int:
    """Bytes of client state, which grow with clients x dim x trials (0 for methods without)."""
    probe: Any = jax.eval_shape(lambda x: method.init(x)[1], jax.ShapeDtypeStruct((task.dim,), task.dtype))
    trials, clients = task.shards.size.shape
    return int(trials * clients * probe.shape[0] * np.dtype(task.dtype).itemsize)


def available_bytes() -> int | None:
    """Free memory of the first device, or of the machine; None where nobody can tell."""
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def check_fits(task: Task, method: Method) -> None:
    """Refuse, with the numbers, state that cannot fit: it is held twice while a round is written back."""
    need, have = 2 * state_bytes(task, method), available_bytes()
    if have is not None and need > have:
        raise UserError(
            f"Method {method.name!r} keeps a state of {task.dim:,} numbers for each of "
            f"{task.shards.size.shape[1]:,} clients: {need / 2**30:.1f} GiB with its working copy, and "
            f"{have / 2**30:.1f} GiB are free; use fewer clients, a smaller model or a method without state."
        )
