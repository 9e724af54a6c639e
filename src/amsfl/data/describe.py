"""How a table was read, and who holds what, for people."""

from math import ceil, log10

import numpy as np

from amsfl.data.dataset import Dataset
from amsfl.data.recipe import plural, some


def describe(data: Dataset, partition: str = "auto") -> list[str]:
    """What data are taken for, in lines: before anything is trained on them.

    Args:
        data: Of `load` or `load_table`.
        partition: How rows are dealt to clients, as in the setting of that name.

    Returns:
        Lines for people.
    """
    held = {name: len(y) for name, (_, y) in data.evals.items()}
    apart = ", ".join(f"{count:,} of them {_held_as(name)}" for name, count in held.items())
    rows = f"{data.name}: {len(data.y) + sum(held.values()):,} rows, {apart}"
    recipe = data.recipe
    if recipe is None or not is_own_table(data):
        lines = [f"{rows}; {plural(len(data.features), 'feature')}", _describe_label(data, "")]
        return [*lines, _describe_clients(data, "", partition), *filter(None, [data.note])]
    by_read: dict[str, list[str]] = {}
    for column in recipe.columns:
        by_read.setdefault(column.read, []).append(column.name)
    become = f"{plural(len(recipe.columns), 'column')} become{'s' * (len(recipe.columns) == 1)}"
    lines = [f"{rows}; {become} {plural(len(data.features), 'number')}", _describe_label(data, recipe.label)]
    lines += [f"read as {read}: {some(names)}" for read, names in by_read.items()]
    if recipe.left_out:
        lines.append(f"left out: {some(recipe.left_out)}")
    return [*lines, _describe_clients(data, recipe.client, partition), *recipe.remarks]


def is_own_table(data: Dataset) -> bool:
    """Whether it is a user's table, and no source by name."""
    return data.recipe is not None and data.name.startswith(("csv:", "table:"))


def _held_as(split: str) -> str:
    return "held out to judge by" if split == "holdout" else f"the split {split!r}"


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
    named = some([f"{name} {n:,}" for name, n in zip(data.site_names, rows, strict=True)])
    return f"clients{f' ({column})' * bool(column)}, training rows: {named}"


def _describe_label(data: Dataset, label: str) -> str:
    y = np.concatenate([data.y, *(y for _, y in data.evals.values())])
    of = f" ({label})" * bool(label)
    if data.amount is not None:
        values = y.astype(np.float64) * data.amount.scale + data.amount.shift
        low, high = values.min(), values.max()
        digits = 4 - ceil(log10(max(high - low, 1e-300)))  # float32 knows no more of y
        return (
            f"a number{of}: from {round(low, digits):.10g} to {round(high, digits):.10g}, mean "
            f"{data.amount.shift:.6g}, deviation {data.amount.scale:.6g} by sums over all sites; always "
            f"saying the mean would be off by {np.abs(y).mean() * data.amount.scale:.6g} on average (R² 0)"
        )
    counts = np.bincount(y, minlength=len(data.classes))
    shares = [f"{name} {n / len(y):.1%}" for name, n in zip(data.classes, counts, strict=True)]
    return (
        f"classes{of}: {some(shares, 20)}; always saying {data.classes[int(counts.argmax())]!r} would score "
        f"{counts.max() / len(y):.3f}"
    )
