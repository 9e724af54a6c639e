"""Any table with a header and a label column becomes a Dataset; a client column becomes its partition."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.core import UserError, listed, nearest
from amsfl.data.cells import Floats
from amsfl.data.column_options import ColumnOptions, split_names
from amsfl.data.dataset import Dataset, IntArray, split
from amsfl.data.federated_statistics import TrainingRows
from amsfl.data.fit_recipe import fit
from amsfl.data.labels import category_codes, label_scale, read_labels, standardise
from amsfl.data.preprocessing import encode
from amsfl.data.raw_table import RawTable, from_frame
from amsfl.data.read_column import means_gap, read_numbers, read_words
from amsfl.data.read_table import CLIENTS, read_file
from amsfl.data.recipe import NUMERIC, ColumnRecipe, Recipe, plural

LABELS = ("label", "target", "class", "y")
CLEAR = 20  # rows for each word of a column, so that telling the class by it is no accident


def load_table(
    source: Any,
    label: str | None = None,
    client_column: str | None = None,
    holdout: float = 0.2,
    seed: int = 0,
    options: ColumnOptions | None = None,
    task: str = "auto",
) -> Dataset:
    """A file, or a pandas or polars DataFrame, as a Dataset with the recipe that made it.

    Words become one-hot columns, numbers and dates are standardised, gaps are marked; whatever that takes is
    fitted to the training pool (never the hold-out), from sums that clients of a real federation can add up
    before the first round without showing a row (data/federated_statistics.py). A label of many numbers is
    predicted as a number, standardised by such sums, too; `task` says otherwise (data/labels.py).

    Args:
        source: A path, a data frame, or a dict of columns.
        label: Column of the class; by default one of the usual names.
        client_column: Column of a row's owner; by default one of the usual names.
        holdout: Share of rows to judge by.
        seed: Of the split.
        options: How columns are to be read, from `amsfl.data.column_options.ColumnOptions`.
        task: `auto`, `classification` or `regression`: what the label is.

    Returns:
        Training pool, hold-out, and the recipe that encodes new rows alike.
    """
    table = read_file(str(source)) if isinstance(source, str | Path) else from_frame(source)
    options = options or ColumnOptions()
    dropped = split_names(options.drop, table.columns)
    usual = (table.client.lower(), *CLIENTS) if table.client else CLIENTS
    label = _find_column(table, label, LABELS, "label", dropped)
    if label is None:
        raise UserError(
            f"{table.name} has no label column; its columns are {listed(table.columns)}. "
            "Say which one holds the class, or the number to predict: --label NAME."
        )
    client = _find_column(table, client_column, usual, "client-column", dropped)
    if client == label:
        raise UserError(f"Column {label!r} cannot be both the label and the client; pass another --label.")
    if options.impute == "site" and client is None:
        raise UserError(
            "--impute site fills gaps by site, and no column names one; pass --client-column NAME."
        )
    table = _drop_unowned(table, [label, client] if client else [label], options)
    y, classes, remarks = read_labels(table, label, task)
    table = table._replace(remarks=(*table.remarks, *remarks))
    sites, site_names = category_codes(table.columns[client]) if client else (None, ())
    train, test = split(y, holdout, seed, sites)
    owners = np.zeros(table.rows) if sites is None else sites
    parts = {name: np.flatnonzero(train & (owners == nth)) for nth, name in enumerate(site_names or ("",))}
    rows = TrainingRows(parts)
    recipe = fit(table, label, client, rows, options)
    _check_columns(table, label, recipe)
    if classes:
        leaks = [_describe_leak(column, table, y, rows.all, label) for column in recipe.columns]
        recipe = recipe._replace(remarks=(*recipe.remarks, *filter(None, leaks)))
    x, file = encode(recipe, table), Path(table.name).name
    del table  # before its rows are copied once more
    scale = None if classes else label_scale(rows.split_numbers(y))
    y = y if scale is None else standardise(y, scale)
    return Dataset(
        name=f"csv:{file}" if ".csv" in file.lower() else f"table:{file}",
        x=x[train],
        y=y[train],
        evals={"holdout": (x[test], y[test])},
        classes=classes,
        features=recipe.features,
        sites=None if sites is None else sites[train],
        site_names=site_names,
        recipe=recipe,
        amount=scale,
    )


def _check_columns(table: RawTable, label: str, recipe: Recipe) -> None:
    if not recipe.columns:
        why = "; ".join(recipe.remarks) or "all were dropped"
        raise UserError(
            f"{table.name} has no columns besides {label!r} to learn from"
            + (f" ({why})." if recipe.left_out else ".")
        )
    if all(column.constant for column in recipe.columns):
        raise UserError(
            f"Every column of {table.name} besides {label!r} is the same in all training rows: there is "
            "nothing to learn from."
        )
    twice = [name for name, count in Counter(recipe.features).items() if count > 1]
    if twice:
        raise UserError(
            f"{table.name} has a column {twice[0]!r}, as what is made of another one is called; rename it."
        )


def _drop_unowned(table: RawTable, needed: Sequence[str], options: ColumnOptions) -> RawTable:
    """Without the rows that have no label or no client: nobody could learn from them."""
    columns = [ColumnRecipe(name, "words", codes=options.codes) for name in needed]
    bad = np.any([means_gap(column, table) for column in columns], axis=0)
    if not bad.any():
        return table
    if bad.all():
        raise UserError(f"Every row of {table.name} lacks {' or '.join(needed)}; fill it in.")
    first = table.lines[int(np.argmax(bad))]
    remark = (
        f"Left out {plural(int(bad.sum()), 'row')} without {' or '.join(needed)}, the first in line {first}."
    )
    return table.filter(~bad)._replace(remarks=(*table.remarks, remark))


def _describe_leak(column: ColumnRecipe, table: RawTable, y: IntArray, rows: IntArray, label: str) -> str:
    """A remark on a column that names the class by itself: perhaps the answer under another name."""
    labels = y[rows]
    if column.read in NUMERIC:
        tells = _separates(read_numbers(column, table)[rows], labels)
    else:
        codes = read_words(column, table).codes[rows]
        words = np.unique(codes)
        pairs = len(np.unique(codes.astype(np.int64) * (int(labels.max()) + 1) + labels))
        tells = 2 <= len(words) <= len(rows) / CLEAR and pairs == len(words)
    if not tells:
        return ""
    return (
        f"{column.name!r} alone tells {label} in every training row; if it is not known when you predict, "
        f"leave it out: --drop {column.name}."
    )


def _separates(values: Floats, labels: IntArray) -> bool:
    """Whether every class has a range of its own."""
    present = ~np.isnan(values)
    values, labels = values[present], labels[present]
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    if len(counts) < 2 or counts.min() < CLEAR:
        return False
    values = values[np.argsort(labels, kind="stable")]
    starts = np.cumsum(counts) - counts
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    order = np.argsort(low)
    return bool((low[order][1:] > high[order][:-1]).all())


def _find_column(
    table: RawTable, asked: str | None, usual: Sequence[str], flag: str, dropped: Sequence[str]
) -> str | None:
    """The column asked for (it must exist), else the first with a usual name that is not dropped, or None."""
    if asked is not None:
        asked = str(asked)  # data frames number their columns
        if asked not in table.columns:
            close = nearest(asked, list(table.columns))
            raise UserError(f"There is no column {asked!r}{close}; pass --{flag} with one that there is.")
        return asked
    by_name = {name.lower(): name for name in table.columns if name not in dropped}
    return next((by_name[name] for name in usual if name in by_name), None)
