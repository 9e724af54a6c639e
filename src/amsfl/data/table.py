"""Any table with a header and a label column becomes a Dataset; a client column becomes its partition."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.core import UserError
from amsfl.data.cells import number
from amsfl.data.dataset import Dataset, IntArray, split
from amsfl.data.fit import Rows, Wishes, fit
from amsfl.data.reading import Table, from_frame, read
from amsfl.data.recipe import encode

LABELS = ("label", "target", "class", "y")
SHOWN = 12  # names in a line
CLIENTS = ("client", "site", "hospital")


def load_table(
    source: Any,
    label: str | None = None,
    client_column: str | None = None,
    holdout: float = 0.2,
    seed: int = 0,
    wish: Wishes | None = None,
) -> Dataset:
    """A file, or a pandas or polars DataFrame, as a Dataset with the recipe that made it.

    Words become one-hot columns, numbers and dates are standardised, gaps are filled; whatever that takes is
    fitted to the training pool (never the hold-out), from sums that clients of a real federation can add up
    before the first round without showing a row (data/sums.py).

    Args:
        source: A path, a data frame, or a dict of columns.
        label: Column of the class; by default one of the usual names.
        client_column: Column of a row's owner; by default one of the usual names.
        holdout: Share of rows to judge by.
        seed: Of the split.
        wish: How columns are to be read, from `amsfl.data.fit.wishes`.

    Returns:
        Training pool, hold-out, and the recipe that encodes new rows alike.
    """
    table = read(str(source)) if isinstance(source, str | Path) else from_frame(source)
    label = _pick(table, label, LABELS, "label")
    if label is None:
        raise UserError(
            f"{table.name} has no label column; its columns are {', '.join(table.columns)}. "
            "Say which one holds the class: --label NAME."
        )
    client = _pick(table, client_column, CLIENTS, "client-column")
    if client == label:
        raise UserError(f"Column {label!r} cannot be both the label and the client; pass another --label.")
    table = _owned(table, [label, client] if client else [label])
    y, classes = codes(table.columns[label])
    table = table._replace(remarks=(*table.remarks, *_alike(label, classes)))
    _check_classes(table.name, label, y, classes)
    sites, site_names = codes(table.columns[client]) if client else (None, ())
    train, test = split(y, holdout, seed, sites)
    rows = _rows(train, sites, site_names)
    recipe = fit(table, label, client, rows, _fitting(wish or Wishes(), client))
    if not recipe.columns:
        why = "; ".join(recipe.remarks) or "all were dropped"
        raise UserError(
            f"{table.name} has no columns besides {label!r} to learn from"
            + (f" ({why})." if recipe.left_out else ".")
        )
    x = encode(recipe, table)
    return Dataset(
        name=_name(table),
        x=x[train],
        y=y[train],
        evals={"holdout": (x[test], y[test])},
        classes=classes,
        features=recipe.features,
        sites=None if sites is None else sites[train],
        site_names=site_names,
        recipe=recipe,
    )


def codes(cells: list[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Each cell's index among the distinct ones, in order: as numbers if all are, else as words."""
    names = set(cells)
    numbers = {name: number(name) for name in names}
    ordered = sorted(names, key=lambda name: (numbers[name] or 0.0, name))
    if None in numbers.values():
        ordered = sorted(names)
    place = {name: i for i, name in enumerate(ordered)}
    return np.array([place[cell] for cell in cells], np.int32), tuple(ordered)


def _name(table: Table) -> str:
    file = Path(table.name).name
    return f"csv:{file}" if file.lower().endswith((".csv", ".csv.gz")) else f"table:{file}"


def _fitting(wish: Wishes, client: str | None) -> Wishes:
    if wish.impute == "site" and client is None:
        raise UserError(
            "--impute site fills gaps by site, and no column names one; pass --client-column NAME."
        )
    return wish


def _rows(train: Any, sites: IntArray | None, names: Sequence[str]) -> Rows:
    if sites is None:
        return Rows({"": np.flatnonzero(train)})
    return Rows({name: np.flatnonzero(train & (sites == place)) for place, name in enumerate(names)})


def _owned(table: Table, needed: Sequence[str]) -> Table:
    """Without the rows that have no label or no client: nobody could learn from them."""
    bad = {i for name in needed for i, cell in enumerate(table.columns[name]) if not cell}
    if not bad:
        return table
    kept = [i for i in range(len(table.lines)) if i not in bad]
    if not kept:
        raise UserError(f"Every row of {table.name} lacks {' or '.join(needed)}; fill it in.")
    said = (
        f"Left out {len(bad)} rows without {' or '.join(needed)}, the first in line {table.lines[min(bad)]}."
    )
    columns = {name: [cells[i] for i in kept] for name, cells in table.columns.items()}
    return table._replace(
        columns=columns, lines=[table.lines[i] for i in kept], remarks=(*table.remarks, said)
    )


def _alike(label: str, classes: Sequence[str]) -> list[str]:
    """Classes that differ in capitals alone are two classes, and hardly meant so."""
    same = Counter(name.casefold() for name in classes)
    twice = [name for name in classes if same[name.casefold()] > 1]
    if not twice:
        return []
    return [f"Classes of {label!r} that differ in capitals alone are kept apart: {', '.join(twice)}."]


def _pick(table: Table, asked: str | None, usual: Sequence[str], flag: str) -> str | None:
    """The column asked for (it must exist), else the first with a usual name, else None."""
    if asked is not None:
        if asked not in table.columns:
            raise UserError(
                f"There is no column {asked!r}; the columns are {', '.join(table.columns)}. "
                f"Pass --{flag} with one of them."
            )
        return asked
    by_name = {name.lower(): name for name in table.columns}
    return next((by_name[name] for name in usual if name in by_name), None)


def _check_classes(path: str, label: str, y: IntArray, classes: Sequence[str]) -> None:
    if len(classes) < 2:
        raise UserError(
            f"Every row of {path} has {label} {classes[0]!r}; learning needs two classes or more."
        )
    if 2 * len(classes) > len(y):
        raise UserError(
            f"Column {label!r} has {len(classes)} different values in {len(y)} rows: that is too few rows a "
            "class, or an amount and not a class; pass another --label or group its values."
        )


def describe(data: Dataset) -> list[str]:
    """What a table is taken for, in lines: before anything is trained on it.

    Args:
        data: Of `load` or `load_table`.

    Returns:
        Lines for people; none for sources by name.
    """
    recipe = data.recipe
    if recipe is None or not data.name.startswith(("csv:", "table:")):
        return []  # sources by name are known
    counts = np.bincount(np.concatenate([data.y, *(y for _, y in data.evals.values())]))
    total = int(counts.sum())
    shares = ", ".join(f"{name} {n / total:.1%}" for name, n in zip(data.classes, counts, strict=True))
    held = len(data.evals["holdout"][1])
    by_read: dict[str, list[str]] = {}
    for column in recipe.columns:
        by_read.setdefault(column.read, []).append(column.name)
    lines = [
        f"{data.name}: {total:,} rows, {held:,} of them held out to judge by; {len(recipe.columns)} columns "
        f"become {len(data.features)} numbers",
        f"classes ({recipe.label}): {shares}; always saying {data.classes[int(counts.argmax())]!r} "
        f"would score {counts.max() / total:.3f}",
    ]
    lines += [f"read as {read}: {_some(names)}" for read, names in by_read.items()]
    if recipe.left_out:
        lines.append(f"left out: {', '.join(recipe.left_out)}")
    if data.sites is not None:
        rows = np.bincount(data.sites, minlength=len(data.site_names)).tolist()
        named = _some([f"{name} {n:,}" for name, n in zip(data.site_names, rows, strict=True)])
        lines.append(f"clients ({recipe.client}), training rows: {named}")
    return [*lines, *recipe.remarks]


def _some(names: Sequence[str]) -> str:
    more = "" if len(names) <= SHOWN else f" and {len(names) - SHOWN} more"
    return ", ".join(names[:SHOWN]) + more
