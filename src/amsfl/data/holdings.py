"""Who holds what: rows of each class at each client."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.data.dataset import IntArray


class Holdings(NamedTuple):
    """Who holds what: rows of each class at each client, ready for a table or a stacked bar chart."""

    classes: tuple[str, ...]
    counts: npt.NDArray[np.int64]  # [client, class]

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.counts.sum(axis=1), np.int64)

    def table(self) -> list[dict[str, Any]]:
        """One dict a client: client, rows, share, then the count of each class by name.

        Returns:
            The rows of the table.
        """
        total = max(1, int(self.counts.sum()))
        return [
            {"client": i, "rows": int(sum(row)), "share": sum(row) / total}
            | {name: int(n) for name, n in zip(self.classes, row, strict=True)}
            for i, row in enumerate(self.counts.tolist())
        ]


def count_classes(parts: Sequence[IntArray], y: IntArray, classes: Sequence[str]) -> Holdings:
    """Count the classes that each client of a partition holds.

    Args:
        parts: Row indices a client.
        y: The label of every row.
        classes: Names of the labels.

    Returns:
        Counts a client and class.
    """
    owner = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    flat = owner * len(classes) + y[np.concatenate(parts)]
    counts = np.bincount(flat, minlength=len(parts) * len(classes))
    return Holdings(tuple(classes), counts.reshape(len(parts), len(classes)))
