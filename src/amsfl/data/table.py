"""Any table with a header and a label column becomes a Dataset; a client column becomes its partition."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from amsfl.core import UserError, listed, nearest
from amsfl.data.cells import Floats
from amsfl.data.dataset import Dataset, IntArray, Mask, label_scale, split, standardise
from amsfl.data.features import checksum_rows, encode, fit
from amsfl.data.labels import category_codes, read_labels
from amsfl.data.read_table import CLIENTS, RawTable, ReadingHints, read_table
from amsfl.data.recipe import ColumnOptions, ColumnRecipe, Recipe, plural

LABELS = ("label", "target", "class", "y")
SAMPLE = 1000  # rows by which most columns are known not to tell the class
CLEAR = 20  # rows for each word of a column, so that telling the class by it is no accident


def load_table(
    source: Any,
    label: str | None = None,
    client_column: str | None = None,
    holdout: float = 0.2,
    seed: int = 0,
    options: ColumnOptions | None = None,
) -> Dataset:
    """A file, or a pandas or polars DataFrame, as a Dataset with the recipe that made it.

    Words become one-hot columns, numbers and dates are standardised, gaps are marked; whatever that takes is
    fitted to the training pool (never the hold-out), and is counts and sums alone, which clients of a real
    federation can add up without showing a row. A label of many numbers is predicted as a number,
    standardised alike; `options` may say otherwise (data/labels.py).

    Args:
        source: A path, a data frame, or a dict of columns.
        label: Column of the class; by default one of the usual names.
        client_column: Column of a row's owner; by default one of the usual names.
        holdout: Share of rows to judge by.
        seed: Of the split.
        options: How columns are to be read, from `amsfl.data.recipe.ColumnOptions`.

    Returns:
        Training pool, hold-out, and the recipe that encodes new rows alike.
    """
    options = options or ColumnOptions()

    def owners_of(names: Sequence[str], site: str = "") -> tuple[str, str]:
        dropped = options.dropped(names)
        answer = find_column(names, label, LABELS, "label", dropped)
        usual = (site.lower(), *CLIENTS) if site else CLIENTS
        return answer, find_column(names, client_column, usual, "client-column", dropped)

    def words_of(names: Sequence[str]) -> set[str]:
        asked = options.asked(names)
        return {*owners_of(names), *(name for name in asked if asked[name] in ("words", "hash"))}

    table = read_table(source, ReadingHints(words_of, options.asked, missing=options.gaps))
    label, client = owners_of(list(table.frame), table.site)
    if not label:
        raise UserError(
            f"{table.name} has no label column; its columns are {listed(table.frame)}. "
            "Say which one holds the class, or the number to predict: --label NAME."
        )
    if client == label:
        raise UserError(f"Column {label!r} cannot be both the label and the client; pass another --label.")
    asked = options.asked(list(table.frame))
    table = _drop_unowned(table, [label, client] if client else [label])
    y, classes, remarks = read_labels(table, label, asked.pop(label, ""))
    table = table._replace(remarks=(*table.remarks, *remarks))
    sites, site_names = category_codes(table.frame[client]) if client else (None, ())
    train, test = split(y, holdout, seed, sites)
    names = [name for name in table.frame if name not in (label, client)]
    for name in asked:
        if name not in names:
            raise UserError(f"There is no column {name!r} to read or drop{nearest(name, names)}.")
    recipe = fit(table, label, client, np.flatnonzero(train), asked)._replace(missing=options.gaps)
    _check_columns(table, label, recipe)
    if classes:
        leaks = [_describe_leak(column, table, y, train, label) for column in recipe.columns]
        recipe = recipe._replace(remarks=(*recipe.remarks, *filter(None, leaks)))
    recipe = recipe._replace(rows=checksum_rows(recipe, table))
    x, file = encode(recipe, table), table.name.rpartition("/")[2]
    scale = None if classes else label_scale(y[train])
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


def find_column(
    names: Sequence[str], asked: str | None, usual: Sequence[str], flag: str, dropped: Collection[str]
) -> str:
    """The column asked for (it must exist), else the first with a usual name that is not dropped, or ''."""
    if asked is not None:
        asked = str(asked)  # data frames number their columns
        if asked not in names:
            close = nearest(asked, names)
            raise UserError(f"There is no column {asked!r}{close}; pass --{flag} with one that there is.")
        return asked
    by_name = {name.lower(): name for name in names if name not in dropped}
    return next((by_name[name] for name in usual if name in by_name), "")


def _drop_unowned(table: RawTable, needed: list[str]) -> RawTable:
    """Without the rows that have no label or no client: nobody could learn from them."""
    bad = table.frame[needed].isna().any(axis=1).to_numpy()
    if not bad.any():
        return table
    if bad.all():
        raise UserError(f"Every row of {table.name} lacks {' or '.join(needed)}; fill it in.")
    first = table.place(int(np.argmax(bad)))
    remark = f"Left out {plural(int(bad.sum()), 'row')} without {' or '.join(needed)}, the first: {first}."
    return table._replace(frame=table.frame[~bad], remarks=(*table.remarks, remark))


def _check_columns(table: RawTable, label: str, recipe: Recipe) -> None:
    if not recipe.columns:
        why = f" ({'; '.join(recipe.remarks) or 'all were dropped'})" if recipe.left_out else ""
        raise UserError(f"{table.name} has no columns besides {label!r} to learn from{why}.")
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


def _describe_leak(column: ColumnRecipe, table: RawTable, y: IntArray, train: Mask, label: str) -> str:
    """A remark on a column that names the class by itself: perhaps the answer under another name."""
    labels, cells = y[train], table.frame[column.name][train]
    if column.numeric:
        tells = _separates(cells.to_numpy(float), labels)
    else:
        codes, words = pd.factorize(cells, use_na_sentinel=False)
        pairs = len(np.unique(codes.astype(np.int64) * (int(labels.max()) + 1) + labels))
        tells = 2 <= len(words) <= len(labels) / CLEAR and pairs == len(words)
    if not tells:
        return ""
    return (
        f"{column.name!r} alone tells {label} in every training row; if it is not known when you predict, "
        f"leave it out: --drop {column.name}."
    )


def _separates(values: Floats, labels: IntArray) -> bool:
    """Whether every class has a range of its own."""
    for rows in (slice(SAMPLE), slice(None)):
        groups = pd.Series(values[rows]).groupby(labels[rows]).agg(["count", "min", "max"]).sort_values("min")
        if (groups["min"].to_numpy()[1:] <= groups["max"].to_numpy()[:-1]).any():
            return False
    return len(groups) > 1 and groups["count"].min() >= CLEAR
