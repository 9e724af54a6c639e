"""What a run is made from: a resumed run must find what it began with."""

from dataclasses import fields
from typing import Any
from zlib import crc32

import numpy as np

from amsfl.core import UserError
from amsfl.federation.folder import Checkpoint
from amsfl.federation.planner import Memory
from amsfl.federation.rounds import Trial
from amsfl.federation.setup import Parts


def made_from(parts: Parts) -> dict[str, Any]:
    """A fingerprint of data, partition and model: a checkpoint means nothing without the same ones."""
    task = parts.task
    return {
        "data": parts.data.name,
        "rows": len(task.y),
        "checksum": crc32(np.ascontiguousarray(task.x).data, crc32(task.shards.order.data)),
        "clients": int(task.shards.size.shape[1]),
        "model": task.model.name,
        "parameters": task.dim,
    }


def trial_of(point: Checkpoint, parts: Parts) -> Trial:
    """The trial of a checkpoint, if it belongs to these parts."""
    host = dict(point.host)
    if "flower" in host:
        raise UserError("This run was made by real clients; continue it with Flower and resume=true.")
    before, now = host.pop("made_from", None), made_from(parts)
    if before is None or set(host) != {field.name for field in fields(Trial)}:
        raise UserError(
            "The checkpoint was not written by 'amsfl run'; it cannot be continued by 'amsfl resume'."
        )
    for what in before:
        if before[what] != now.get(what):
            raise UserError(
                f"The run began with {what} {before[what]!r} and would continue with {now.get(what)!r}; "
                "give it the same data and model as before, or start a new run."
            )
    return Trial(**host | {"memory": Memory.load(host["memory"])})
