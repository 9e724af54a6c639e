"""A user's own data is checked before the engines would fail on it, later and darkly."""

import numpy as np

from amsfl.core import UserError
from amsfl.data import Dataset


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
