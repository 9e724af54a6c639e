"""How a table was read, and who holds what, for people."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.data.dataset import Dataset, IntArray
from amsfl.data.recipe import plural

SHOWN = 12  # names in a line


def describe(data: Dataset, partition: str = "auto") -> list[str]:
    """What a table is taken for, in lines: before anything is trained on it.

    Args:
        data: Of `load` or `load_table`.
        partition: How rows are dealt to clients, as in the setting of that name.

    Returns:
        Lines for people; none for sources by name.
    """
    recipe = data.recipe
    if recipe is None or not is_own_table(data):
        return []  # sources by name are known
    held = len(data.evals["holdout"][1])
    by_read: dict[str, list[str]] = {}
    for column in recipe.columns:
        by_read.setdefault(column.read, []).append(column.name)
    lines = [
        f"{data.name}: {len(data.y) + held:,} rows, {held:,} of them held out to judge by; "
        f"{plural(len(recipe.columns), 'column')} become{'s' * (len(recipe.columns) == 1)} "
        f"{plural(len(data.features), 'number')}",
        _describe_label(data, recipe.label),
    ]
    lines += [f"read as {read}: {_some(names)}" for read, names in by_read.items()]
    if recipe.left_out:
        lines.append(f"left out: {', '.join(recipe.left_out)}")
    return [*lines, _describe_clients(data, recipe.client, partition), *recipe.remarks]


def is_own_table(data: Dataset) -> bool:
    """Whether it is a user's table, and no source by name."""
    return data.recipe is not None and data.name.startswith(("csv:", "table:"))


def _describe_clients(data: Dataset, column: str, partition: str) -> str:
    """How rows are dealt to clients."""
    if data.sites is None:
        how = "dirichlet:0.5" if partition == "auto" else partition
        return f"clients: no column names them, so rows are dealt by --partition {how}"
    if partition not in ("auto", "column", "site"):
        return (
            f"clients: {column!r} names {len(data.site_names)} of them, but --partition {partition} deals "
            "all rows anew; leave it out to train each on its own rows"
        )
    rows = np.bincount(data.sites, minlength=len(data.site_names)).tolist()
    named = _some([f"{name} {n:,}" for name, n in zip(data.site_names, rows, strict=True)])
    return f"clients ({column}), training rows: {named}"


def _describe_label(data: Dataset, label: str) -> str:
    y = np.concatenate([data.y, *(y for _, y in data.evals.values())])
    if data.amount is not None:
        values = y.astype(np.float64) * data.amount.scale + data.amount.shift
        return (
            f"a number ({label}): from {values.min():.6g} to {values.max():.6g}, mean "
            f"{data.amount.shift:.6g}, deviation {data.amount.scale:.6g} by sums over all sites; always "
            f"saying the mean would be off by {np.abs(y).mean() * data.amount.scale:.6g} on average (R² 0)"
        )
    counts = np.bincount(y)
    shares = ", ".join(f"{name} {n / len(y):.1%}" for name, n in zip(data.classes, counts, strict=True))
    return (
        f"classes ({label}): {shares}; always saying {data.classes[int(counts.argmax())]!r} would score "
        f"{counts.max() / len(y):.3f}"
    )


def _some(names: Sequence[str]) -> str:
    more = "" if len(names) <= SHOWN else f" and {len(names) - SHOWN} more"
    return ", ".join(names[:SHOWN]) + more


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
