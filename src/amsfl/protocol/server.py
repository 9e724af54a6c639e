"""What the server does with a cohort's uploads."""

from collections.abc import Sequence
from typing import Any

from amsfl.core import Upload
from amsfl.methods import Method
from amsfl.methods.base import average

Vector = Any


def settle(
    method: Method, anchor: Vector, server: Vector, uploads: Sequence[Upload], weights: Vector, steps: Vector
) -> tuple[Vector, Vector]:
    """The next anchor and server state, from all uploads in the cohort's order.

    `weights` are the clients' shares of all data, `steps` what each did, both in the vectors' own precision.
    """
    if method.combine is None:
        total = summed(uploads, method.mix(weights, steps))
    else:
        total = combined(method, stacked(uploads, weights), weights, steps)
    return method.aggregate(anchor, total, weights, steps, server)


def combined(method: Method, uploads: Upload, weights: Vector, steps: Vector) -> Upload:
    """What the method's rule makes of stacked uploads [n, ...].

    The rule sees every upload as it would enter a plain average, so that it and its weights are all it needs:
    upload_i mix_i / share_i, with shares that sum to 1 (FedNova's are mean steps, FedAvg's deltas); and how
    many mean steps of its client each is.
    """
    assert method.combine is not None
    share = average(weights, steps)
    scale = method.mix(weights, steps) / share
    rows = Upload(*(part * scale.reshape(-1, *[1] * (part.ndim - 1)) for part in uploads))
    rows, counts = method.combine.apply(rows, share, scale * (steps + method.closing))
    return Upload(*((part * counts.reshape(-1, *[1] * (part.ndim - 1))).sum(0) for part in rows))


def summed(uploads: Sequence[Upload], mix: Vector) -> Upload:
    """sum_i mix_i upload_i, always in the same order."""
    scaled = [Upload(*(share * part for part in each)) for share, each in zip(mix, uploads, strict=True)]
    total = scaled[0]
    for each in scaled[1:]:
        total = Upload(*(a + b for a, b in zip(total, each, strict=True)))
    return total


def stacked(uploads: Sequence[Upload], like: Vector) -> Upload:
    stack = like.__array_namespace__().stack
    return Upload(*(stack(part) for part in zip(*uploads, strict=True)))
