"""What is predicted: classes, or a number. Decided from the label column, or as the user says.

And how much a row of each class counts in training.
"""

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError, nearest
from amsfl.data import federated_statistics
from amsfl.data.cells import Cells, Floats
from amsfl.data.column_types import ask_codes, describe_reading
from amsfl.data.dataset import IntArray, Labels, LabelScale
from amsfl.data.raw_table import RawTable
from amsfl.data.recipe import ColumnRecipe, plural
from amsfl.data.spelling import class_name, parse, parse_numbers, reads_all

TASKS = ("auto", "classification", "regression")
MOST_CLASSES = 20  # different whole numbers that are classes unless somebody says otherwise
FEW = 2  # rows of a class that is hardly meant
SHOWN = 5  # remarks of one kind
ODD = 0.1  # share of labels that are no numbers: below it they are typos among numbers
DAYS = "give days since one of them in its place"  # of dates
LARGEST = 1e100
FLAT = 1e-12  # of the largest value: a deviation below it is rounding


LabelColumn = tuple[Labels, tuple[str, ...], list[str]]  # with the names of its classes, and remarks


def read_labels(table: RawTable, label: str, task: str = "auto") -> LabelColumn:
    """Class numbers, or numbers as they stand in the table (without classes), by `task`.

    auto: fractions, or over twenty different numbers, are predicted as numbers.
    """
    if task not in TASKS:
        raise UserError(f"Unknown task {task!r}{nearest(task, TASKS)}.")
    cells = table.columns[label]
    numbers, column = parse_label_numbers(table, label)
    readable = ~np.isnan(numbers)
    if task == "regression" or (task == "auto" and _is_amount(numbers, readable, len(cells.words))):
        return _read_amounts(table, column, task, numbers)
    y, classes = category_codes(cells)
    _check_classes(table, label, y, classes, bool(readable.all()))
    return y, classes, _doubtful_classes(label, y, classes)


def parse_label_numbers(table: RawTable, label: str) -> tuple[Floats, ColumnRecipe]:
    """Every row's number by the spelling that reads most rows, and how it was read."""
    cells, column = table.columns[label], ColumnRecipe(label, "number", "point")
    if cells.kind != "text":
        return cells.numbers, column
    if cells.point is not None and not table.groups_by_points(label):
        return cells.point, column
    columns = table.spellings(column, cells.vocabulary)
    readings = [parse(each, cells.vocabulary) for each in columns]
    best = int(np.argmin([np.isnan(numbers).sum() for numbers in readings]))
    return np.append(readings[best], np.nan)[cells.codes], columns[best]


def category_codes(cells: Cells) -> tuple[IntArray, tuple[str, ...]]:
    """Each cell's index among the distinct ones, in order: as numbers if all are, else as words."""
    numbers = parse_numbers(cells.vocabulary, "point").tolist()
    numeric = not np.isnan(numbers).any()
    names = [class_name(word) for word in cells.words] if numeric else cells.words
    names = names if len({*names}) < len(names) else cells.words  # as they are written, unless two are one
    key = dict(zip(names, numbers if numeric else [0.0] * len(names), strict=True))
    order = sorted(key, key=lambda name: (key[name], name))
    place = {name: nth for nth, name in enumerate(order)}
    return np.array([place[name] for name in names], np.int32)[cells.codes], tuple(order)


def class_places(classes: Sequence[str], words: Sequence[str]) -> dict[str, int]:
    """Which class each word is, where it is one: as it is written, as a number, or in other capitals."""
    places: dict[str, int] = {}
    for form in (str, class_name, str.casefold):
        known = {form(name): nth for nth, name in enumerate(classes)}
        if len(known) == len(classes):  # what two classes share tells nothing
            places = {word: known[form(word)] for word in words if form(word) in known} | places
    return places


def label_scale(parts: Sequence[npt.NDArray[np.float64]]) -> LabelScale:
    """Mean and deviation of all sites' values, from sums alone; a constant keeps its unit."""
    mean, deviation = federated_statistics.mean_and_deviation(parts)
    largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
    if not largest < LARGEST:
        raise UserError(
            f"A label is {largest:g}, and errors are squared: give labels below {LARGEST:g}, in another unit."
        )
    return LabelScale(mean, deviation if deviation > FLAT * largest else 1.0)


def standardise(values: Labels, scale: LabelScale) -> Labels:
    """In units of the deviation; divided first, since numbers near 1e300 have no difference in float64."""
    return (np.asarray(values, np.float64) / scale.scale - scale.shift / scale.scale).astype(np.float32)


def class_weights(text: str, y: IntArray, classes: Sequence[str]) -> tuple[float, ...] | None:
    """`balanced` or `NAME=NUMBER,...`, scaled so that a training row counts 1 on average; None for ''.

    Balanced: n / (classes that are there x rows of the class), from the counts of all sites together. A class
    that a site does not have has its weight all the same; who is not named keeps 1.
    """
    if not text:
        return None
    if not classes:
        raise UserError(
            f"Class weights {text!r} are of classes, and here numbers are predicted; leave them out."
        )
    counts = np.bincount(y, minlength=len(classes))
    if text == "balanced":
        present = counts > 0
        weights = np.where(present, len(y) / (present.sum() * np.maximum(counts, 1)), 0.0)
    else:
        named = _parse_weights(text, classes)
        weights = np.array([named.get(name, 1.0) for name in classes])
    return tuple((weights * len(y) / (weights @ counts)).tolist())


def _is_amount(numbers: Floats, readable: npt.NDArray[np.bool_], different: int) -> bool:
    """Whether labels nobody has spoken about are numbers to predict, and not names of classes."""
    if not readable.all():
        return readable.mean() >= 1 - ODD and different > MOST_CLASSES
    distinct = np.unique(numbers)
    fractions = (distinct != np.floor(distinct)).any()
    return len(distinct) > (2 if fractions else MOST_CLASSES)


def _read_amounts(table: RawTable, column: ColumnRecipe, task: str, numbers: Floats) -> LabelColumn:
    label, bad = column.name, ~np.isfinite(numbers)
    if table.columns[label].kind == "date" or (bad.any() and _are_dates(table, label)):
        classes = len(table.columns[label].words)
        other = "" if 2 * classes > table.rows else ", or make each date a class: --task classification"
        raise UserError(f"Column {label!r} holds dates, and numbers are predicted; {DAYS}{other}.")
    if bad.any():
        row = int(np.argmax(bad))
        cell = table.cell(label, row)
        raise UserError(
            f"Line {table.lines[row]}, column {label!r} is {cell!r}, and numbers are predicted; mend the "
            f"cell, leave its rows out (--missing={cell}), or make each value a class: --task classification."
        )
    if np.ptp(numbers / max(1.0, float(np.abs(numbers).max()))) <= FLAT:
        value = table.cell(label, 0)
        raise UserError(f"Every row of {table.name} has {label} {value!r}; there is nothing to predict.")
    why = "as you said" if task == "regression" else f"{len(np.unique(numbers)):,} different numbers"
    note = f"{label!r} is predicted as a number ({why}); --task classification makes each value a class."
    read = describe_reading(column, table.columns[label].vocabulary)
    return numbers, (), [note, *read, *ask_codes(column, numbers)]


def _doubtful_classes(label: str, y: IntArray, classes: Sequence[str]) -> list[str]:
    """Remarks on classes that differ in capitals alone, and on those of a row or two: typos, perhaps."""
    same = Counter(name.casefold() for name in classes)
    twice = [name for name in classes if same[name.casefold()] > 1]
    together = f"Classes of {label!r} that differ in capitals alone are kept apart: {', '.join(twice)}."
    counts = dict(zip(classes, np.bincount(y, minlength=len(classes)).tolist(), strict=True))
    common = [name for name, count in counts.items() if count > FEW]
    remarks = []
    for name in [name for name, count in counts.items() if count <= FEW][:SHOWN]:
        like = get_close_matches(name, common, 1)
        hint = f"; is it {like[0]!r}?" if like else "; mend, join or drop its rows if it is not meant."
        remarks.append(f"Class {name!r} of {label!r} has {plural(counts[name], 'row')}{hint}")
    return [together, *remarks] if twice else remarks


def _are_dates(table: RawTable, label: str) -> bool:
    words = table.columns[label].vocabulary
    return any(reads_all(each, words) for each in table.spellings(ColumnRecipe(label, "date"), words))


def _check_classes(
    table: RawTable, label: str, y: IntArray, classes: Sequence[str], are_numbers: bool
) -> None:
    if len(classes) < 2:
        raise UserError(
            f"Every row of {table.name} has {label} {classes[0]!r}; learning needs two classes or more."
        )
    if 2 * len(classes) > len(y):
        other = "predict a number: --task regression" if are_numbers else ""
        other = DAYS if _are_dates(table, label) else other
        other = f"group its values, or {other}" if other else "or group its values"
        raise UserError(
            f"Column {label!r} has {len(classes)} different values in {len(y)} rows: that is too few rows a "
            f"class, or an amount and not a class; pass another --label, {other}."
        )


def _parse_weights(text: str, classes: Sequence[str]) -> dict[str, float]:
    weights = {}
    for pair in text.split(","):
        name, sign, number = (part.strip() for part in pair.rpartition("="))
        try:
            weights[name] = float(number)
        except ValueError:
            sign = ""
        if not sign or not 0 < weights[name] < np.inf:
            raise UserError(
                f"Class weights {pair!r}: write balanced, or NAME=NUMBER with commas, above 0: yes=5,no=1."
            )
        if name not in classes:
            raise UserError(f"There is no class {name!r} to weigh{nearest(name, classes)}.")
    return weights
