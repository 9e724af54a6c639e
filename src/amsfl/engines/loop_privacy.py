"""One private gradient of the reference engine, row by row; private_gradients.py has the compiled one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from amsfl import sampling
from amsfl.core import RowPrivacy
from amsfl.core.records import Array
from amsfl.engines.task import Task
from amsfl.privacy import safe_sum


class PrivateStep(NamedTuple):
    """Whose step it is."""

    trial: int
    client: int
    key: tuple[Array, Array]
    number: int  # of the step, from 0
    batch: int


def private_gradient(
    task: Task, private: RowPrivacy, each_gradient: Callable[..., Array], x: Array, step: PrivateStep
) -> Array:
    """`each_gradient(x, rows, labels)` gives every row's gradient at x."""
    trial, who, key, _, batch = step
    dtype, shards = task.dtype, task.shards
    assert task.noise is not None
    size, begin = int(shards.size[trial, who]), int(shards.start[trial, who])
    with np.errstate(over="ignore"):
        at, thresholds = sampling.words(step.number), sampling.digits(batch, size)
        passed = sampling.gaps(key, at, np.arange(size, dtype=np.uint32), thresholds)
        inside = np.cumsum(passed.astype(np.int64) + 1) - 1
        inside = inside[inside < size]
    total, room = np.zeros(task.dim, dtype), min(size, batch)
    for first in range(0, len(inside), room):
        some = np.resize(inside[first : first + room], room)  # one shape: one compilation
        rows = shards.order[trial, begin + some]
        each = np.asarray(each_gradient(x, task.x[rows], task.y[rows]))[: len(inside) - first]
        factors = safe_sum.row_factors(private, safe_sum.norms(each), np.ones(len(each), bool))
        total += safe_sum.weighted_sum(factors, each)

    def draw(lane: int) -> Array:
        with np.errstate(over="ignore"):
            own, places = sampling.lane(key, lane), np.arange(task.dim, dtype=np.uint32)
            return sampling.normal(own, at, places).astype(dtype)

    length = safe_sum.norms(total[None])[0]
    total = total if safe_sum.is_safe(length, len(inside), private.clip) else np.zeros_like(total)
    scale = task.noise[trial, who].astype(dtype) * dtype(private.clip)
    return (total + private.noise(draw, scale)) / dtype(min(size, batch))
