"""What a run is made from: a user's own data is checked, and a resumed run must find what it began with."""

from dataclasses import fields
from typing import Any
from zlib import crc32

import numpy as np

from amsfl.core import UserError
from amsfl.data import Dataset
from amsfl.federation.folder import Checkpoint
from amsfl.federation.planner import Memory
from amsfl.federation.rounds import Trial
from amsfl.federation.setup import Parts


def check_dataset(data: Dataset) -> Dataset:
    """A user's own Dataset: shapes, labels and numbers that the engines would fail on later, and darkly."""
    if "holdout" not in data.evals:
        raise UserError(
            f"The dataset {data.name!r} has no split 'holdout' in its evals; runs are judged by it."
        )
    for split, (x, y) in {"train": (data.x, data.y), **data.evals}.items():
        where = f"The dataset {data.name!r}, split {split!r}"
        if np.ndim(x) != 2 or len(x) != len(y) or len(y) == 0:
            raise UserError(
                f"{where}: x has shape {np.shape(x)} and y {np.shape(y)}; x is [rows, features], y is [rows]."
            )
        if np.shape(x)[1] != len(data.features):
            raise UserError(f"{where}: {np.shape(x)[1]} columns, but {len(data.features)} names in features.")
        if np.min(y) < 0 or np.max(y) >= len(data.classes):
            raise UserError(
                f"{where}: labels go from {np.min(y)} to {np.max(y)}; with {len(data.classes)} classes they "
                f"go from 0 to {len(data.classes) - 1}."
            )
        if not np.isfinite(x).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            raise UserError(
                f"{where}: row {row}, column {data.features[column]!r} is {x[row, column]}; "
                "fill it in or drop the row."
            )
    return data


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
