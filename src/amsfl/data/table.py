"""Any table with a header and a label column becomes a Dataset; a client column becomes its partition."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from amsfl.core import UserError, listed, nearest
from amsfl.data.cells import Floats, choose, date_readings, number_readings
from amsfl.data.dataset import FLAT, Dataset, IntArray, Labels, Mask, label_scale, split, standardise
from amsfl.data.features import checksum_rows, encode, fit
from amsfl.data.read_table import CLIENTS, RawTable, read_table
from amsfl.data.recipe import ColumnRecipe, Names, Recipe, columns_flag, plural, read_as, split_names, whole

LABELS = ("label", "target", "class", "y")
SAMPLE = 1000  # rows by which most columns are known not to tell the class
MOST_CLASSES = 20  # different whole numbers that are classes unless somebody says otherwise
FEW = 2  # rows of a class that is hardly meant
SHOWN = 5  # names in a sentence
ODD = 0.1  # share of labels that are no numbers: below it they are typos among numbers
DAYS = "give days since one of them in its place"  # of dates
CLEAR = 20  # rows for each word of a column, so that telling the class by it is no accident


def read_dataset(
    source: Any,
    label: str | None,
    client_column: str | None,
    holdout: float,
    seed: int,
    drop: Names,
    columns: Names,
    missing: Names,
) -> Dataset:
    """A table as a Dataset with the recipe that made it; the arguments are those of `amsfl.data.load`."""
    gaps = tuple(map(whole, split_names(missing)))

    def asked_of(names: Sequence[str]) -> dict[str, str]:
        return read_as(drop, columns, names)

    def owners_of(names: Sequence[str], site: str = "") -> tuple[str, str]:
        dropped = split_names(drop, names)
        answer = find_column(names, label, LABELS, "label", dropped)
        usual = (site.lower(), *CLIENTS) if site else CLIENTS
        return answer, find_column(names, client_column, usual, "client-column", dropped)

    def read_of(names: Sequence[str]) -> dict[str, str]:
        return asked_of(names) | dict.fromkeys(owners_of(names), "words")

    table = read_table(source, read_of, missing=gaps)
    label, client = owners_of(list(table.frame), table.site)
    if not label:
        raise UserError(
            f"{table.name} has no label column; its columns are {listed(table.frame)}. "
            "Say which one holds the class, or the number to predict: --label NAME."
        )
    if client == label:
        raise UserError(f"Column {label!r} cannot be both the label and the client; pass another --label.")
    asked = asked_of(list(table.frame))
    table = _drop_unowned(table, [label, client] if client else [label])
    y, classes, remarks = read_labels(table, label, asked.pop(label, ""))
    table = table._replace(remarks=(*table.remarks, *remarks))
    sites, site_names = category_codes(table.frame[client]) if client else (None, ())
    train, test = split(y, holdout, seed, sites)
    names = [name for name in table.frame if name not in (label, client)]
    for name in asked:
        if name not in names:
            raise UserError(f"There is no column {name!r} to read or drop{nearest(name, names)}.")
    recipe = fit(table, label, client, np.flatnonzero(train), asked)._replace(missing=gaps)
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
    what = f"{plural(int(bad.sum()), 'row')} without {' or '.join(needed)}"
    remark = f"Left out {what}, the first: {first[0].lower()}{first[1:]}."
    return table._replace(frame=table.frame[~bad], remarks=(*table.remarks, remark))


def _check_columns(table: RawTable, label: str, recipe: Recipe) -> None:
    if not recipe.columns:
        why = f" ({'; '.join(recipe.remarks) or 'all were dropped'})" if recipe.left_out else ""
        raise UserError(f"{table.name} has no columns besides {label!r} to learn from{why}.")


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
        f"{column.name!r} alone says {label} in every training row; if it is not known when you predict, "
        f"leave it out: --drop {column.name}."
    )


def _separates(values: Floats, labels: IntArray) -> bool:
    """Whether every class has a range of its own."""
    for rows in (slice(SAMPLE), slice(None)):
        groups = pd.Series(values[rows]).groupby(labels[rows]).agg(["count", "min", "max"]).sort_values("min")
        if (groups["min"].to_numpy()[1:] <= groups["max"].to_numpy()[:-1]).any():
            return False
    return len(groups) > 1 and groups["count"].min() >= CLEAR


def read_labels(table: RawTable, label: str, asked: str = "") -> tuple[Labels, tuple[str, ...], list[str]]:
    """Class numbers and names, or numbers as they stand in the table (without classes); and remarks.

    Fractions, or over twenty different numbers, are numbers to predict, unless `number` or `words` is asked.
    """
    if asked not in ("", "number", "words"):
        cannot = "dropped" if asked == "drop" else f"read as {asked}"
        raise UserError(f"{label!r} is the label, which is read as number or words and cannot be {cannot}.")
    numbers = label_numbers(table, label)
    readable, distinct = ~np.isnan(numbers), np.unique(numbers[~np.isnan(numbers)])
    amount = readable.mean() >= 1 - ODD and table.frame[label].nunique() > MOST_CLASSES
    if readable.all():
        amount = len(distinct) > (2 if (distinct != np.floor(distinct)).any() else MOST_CLASSES)
    if asked == "number" or (not asked and amount):
        _check_amounts(table, label, numbers)
        why = "as you said" if asked else f"{len(distinct):,} different numbers"
        flag = columns_flag(label, "words")
        note = f"{label!r} is predicted as a number ({why}); {flag} makes each value a class."
        return numbers, (), [note]
    y, classes = category_codes(table.frame[label])
    _check_classes(table, label, y, classes, bool(readable.all()))
    return y, classes, _doubtful_classes(label, y, classes)


def label_numbers(table: RawTable, label: str) -> Floats:
    """Every row's number by the decimal mark that reads most words, nan where there is none."""
    codes, words = pd.factorize(table.frame[label])
    readings = number_readings(list(words))
    form = choose(label, list(words), readings, "", "", table.comma)
    form = form or min(readings, key=lambda each: np.isnan(readings[each]).sum())
    return np.asarray(readings[form][codes])


def category_codes(cells: pd.Series) -> tuple[IntArray, tuple[str, ...]]:
    """Each cell's index among the distinct ones, in order: as numbers if all are, else as words."""
    codes, words = pd.factorize(cells)
    if len({*map(whole, words)}) < len(words):  # 1 here and 1.0 there are one
        codes, words = pd.factorize(cells.map(whole))
    numbers = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").to_numpy(float)
    if np.isnan(numbers).any():
        numbers = np.zeros(len(words))
    order = sorted(range(len(words)), key=lambda nth: (numbers[nth], words[nth]))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    return place[codes], tuple(str(words[nth]) for nth in order)


def class_places(classes: Sequence[str], words: Sequence[str]) -> dict[str, int]:
    """Which class each word is, where it is one: as it is written, as a number, or in other capitals."""
    places: dict[str, int] = {}
    for form in (str, whole, str.casefold):
        known = {form(name): nth for nth, name in enumerate(classes)}
        if len(known) == len(classes):  # what two classes share tells nothing
            places = {word: known[form(word)] for word in words if form(word) in known} | places
    return places


def _check_amounts(table: RawTable, label: str, numbers: Floats) -> None:
    bad, cells = ~np.isfinite(numbers), table.frame[label]
    if bad.any() and _are_dates(cells):
        raise UserError(
            f"Column {label!r} holds dates, and numbers are predicted; {DAYS}, or make each date a class: "
            f"{columns_flag(label, 'words')}."
        )
    if bad.any():
        row = int(np.argmax(bad))
        raise UserError(
            f"{table.place(row)}, column {label!r} is {cells.iloc[row]!r}, and numbers are predicted; mend "
            f"the cell, leave its rows out (--missing={quote(cells.iloc[row])}), or make each value a class: "
            f"{columns_flag(label, 'words')}."
        )
    if np.ptp(numbers / max(1.0, float(np.abs(numbers).max()))) <= FLAT:
        raise UserError(
            f"Every row of {table.name} has {label} {cells.iloc[0]!r}; there is nothing to predict."
        )


def _doubtful_classes(label: str, y: IntArray, classes: Sequence[str]) -> list[str]:
    """A remark on classes of a row or two: typos, perhaps."""
    counts = dict(zip(classes, np.bincount(y, minlength=len(classes)).tolist(), strict=True))
    common = [name for name, count in counts.items() if count > FEW]
    rare = [name for name in classes if name not in common]
    like = {name: get_close_matches(name, common, 1) for name in rare}
    names = [f"{name!r}" + (f" (is it {like[name][0]!r}?)" if like[name] else "") for name in rare]
    if not rare:
        return []
    have = f"has {plural(counts[rare[0]], 'row')}" if len(rare) == 1 else "have a row or two"
    return [
        f"{plural(len(rare), 'class')} of {label!r} {have}: {listed(names, SHOWN)}; mend, join or drop what "
        "is not meant."
    ]


def _are_dates(cells: pd.Series) -> bool:
    words = list(cells.dropna().unique())
    return any(not np.isnan(days).any() for days in date_readings(words).values())


def _check_classes(
    table: RawTable, label: str, y: IntArray, classes: Sequence[str], are_numbers: bool
) -> None:
    if len(classes) < 2:
        raise UserError(
            f"Every row of {table.name} has {label} {classes[0]!r}; learning needs two classes or more."
        )
    if 2 * len(classes) > len(y):
        other = (
            DAYS
            if _are_dates(table.frame[label])
            else f"predict a number: {columns_flag(label, 'number')}" * are_numbers
        )
        what = f"group its values, or {other}" if other else "or group its values"
        raise UserError(
            f"Column {label!r} has {len(classes)} different values in {len(y)} rows: that is too few rows a "
            f"class, or an amount and not a class; pass another --label, {what}."
        )
