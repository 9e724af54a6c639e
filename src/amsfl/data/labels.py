"""What is predicted: classes, or a number. Decided from the label column, or as the user says (--columns)."""

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import pandas as pd

from amsfl.core import UserError, listed
from amsfl.data.cells import CellHints, Floats, choose, date_readings, number_readings
from amsfl.data.dataset import FLAT, IntArray, Labels
from amsfl.data.read_table import RawTable
from amsfl.data.recipe import NAMED, plural, whole

MOST_CLASSES = 20  # different whole numbers that are classes unless somebody says otherwise
FEW = 2  # rows of a class that is hardly meant
SHOWN = 5  # remarks of one kind
ODD = 0.1  # share of labels that are no numbers: below it they are typos among numbers
DAYS = "give days since one of them in its place"  # of dates


def read_labels(table: RawTable, label: str, asked: str = "") -> tuple[Labels, tuple[str, ...], list[str]]:
    """Class numbers and names, or numbers as they stand in the table (without classes); and remarks.

    Fractions, or over twenty different numbers, are numbers to predict, unless `number` or `words` is asked.
    """
    if asked not in ("", "number", "words"):
        raise UserError(f"The label {label!r} is read as number or as words, not as {asked}.")
    numbers = label_numbers(table, label)
    readable, distinct = ~np.isnan(numbers), np.unique(numbers[~np.isnan(numbers)])
    amount = readable.mean() >= 1 - ODD and table.frame[label].nunique() > MOST_CLASSES
    if readable.all():
        amount = len(distinct) > (2 if (distinct != np.floor(distinct)).any() else MOST_CLASSES)
    if asked == "number" or (not asked and amount):
        _check_amounts(table, label, numbers)
        why = "as you said" if asked else f"{len(distinct):,} different numbers"
        note = (
            f"{label!r} is predicted as a number ({why}); --columns {label}=words makes each value a class."
        )
        return numbers, (), [note]
    y, classes = category_codes(table.frame[label])
    _check_classes(table, label, y, classes, bool(readable.all()))
    return y, classes, _doubtful_classes(label, y, classes)


def label_numbers(table: RawTable, label: str) -> Floats:
    """Every row's number by the decimal mark that reads most words, nan where there is none."""
    codes, words = pd.factorize(table.frame[label])
    readings = number_readings(list(words))
    form = choose(label, list(words), readings, CellHints(comma=table.comma))
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
        other = (
            ""
            if 2 * cells.nunique() > len(cells)
            else f", or make each date a class: --columns {label}=words"
        )
        raise UserError(f"Column {label!r} holds dates, and numbers are predicted; {DAYS}{other}.")
    if bad.any():
        row = int(np.argmax(bad))
        raise UserError(
            f"{table.place(row)}, column {label!r} is {cells.iloc[row]!r}, and numbers are predicted; mend "
            f"the cell, leave its rows out (--missing={cells.iloc[row]}), or make each value a class: "
            f"--columns {label}=words."
        )
    if np.ptp(numbers / max(1.0, float(np.abs(numbers).max()))) <= FLAT:
        raise UserError(
            f"Every row of {table.name} has {label} {cells.iloc[0]!r}; there is nothing to predict."
        )


def _doubtful_classes(label: str, y: IntArray, classes: Sequence[str]) -> list[str]:
    """Remarks on classes that differ in capitals alone, and on those of a row or two: typos, perhaps."""
    same = Counter(name.casefold() for name in classes)
    twice = [name for name in classes if same[name.casefold()] > 1]
    remarks = (
        [f"Classes of {label!r} that differ in capitals alone are kept apart: {listed(twice, NAMED)}."]
        if twice
        else []
    )
    counts = dict(zip(classes, np.bincount(y, minlength=len(classes)).tolist(), strict=True))
    common = [name for name, count in counts.items() if count > FEW]
    rare = [name for name in classes if name not in common]
    for name in rare[:SHOWN]:
        like = get_close_matches(name, common, 1)
        hint = f"; is it {like[0]!r}?" if like else "; mend, join or drop its rows if it is not meant."
        remarks.append(f"Class {name!r} of {label!r} has {plural(counts[name], 'row')}{hint}")
    more = len(rare) - SHOWN
    return [*remarks, f"{more} more classes of {label!r} have a row or two."] if more > 0 else remarks


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
            else f"predict a number: --columns {label}=number" * are_numbers
        )
        what = f"group its values, or {other}" if other else "or group its values"
        raise UserError(
            f"Column {label!r} has {len(classes)} different values in {len(y)} rows: that is too few rows a "
            f"class, or an amount and not a class; pass another --label, {what}."
        )
