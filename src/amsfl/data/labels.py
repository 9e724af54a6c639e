"""What is predicted: classes, or a number. Decided from the label column, or as the user says."""

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError, nearest
from amsfl.data import cell_values as text
from amsfl.data import federated_statistics
from amsfl.data.dataset import IntArray, Labels, LabelScale
from amsfl.data.read_table import RawTable

TASKS = ("auto", "classification", "regression")
MOST_CLASSES = 20  # different whole numbers that are classes unless somebody says otherwise
FEW = 2  # rows of a class that is hardly meant
SHOWN = 5  # remarks of one kind
ODD = 0.1  # share of labels that are no numbers: below it they are typos among numbers
FLAT = 1e-12  # of the largest value: a deviation below it is rounding


class LabelColumn(NamedTuple):
    """The label column: class numbers and their names, or numbers as they stand in the table."""

    y: Labels
    classes: tuple[str, ...]  # () where numbers are predicted
    remarks: tuple[str, ...] = ()


def read_labels(table: RawTable, label: str, task: str = "auto") -> LabelColumn:
    """By `task`; auto: numbers with fractions, or more than twenty different ones, are amounts."""
    if task not in TASKS:
        raise UserError(f"Unknown task {task!r}{nearest(task, TASKS)}.")
    cells = table.columns[label]
    spelling = text.spelling(cells, text.numbers(table.commas))
    if task == "regression" or (task == "auto" and _amounts(cells, spelling, table)):
        return _numbers(table, label, spelling, task)
    y, classes = category_codes(cells)
    _check_classes(table.name, label, y, classes)
    return LabelColumn(y, classes, (*_alike(label, classes), *_rare(label, y, classes)))


def category_codes(cells: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Each cell's index among the distinct ones, in order: as numbers if all are, else as words."""
    names = set(cells)
    numbers = {name: text.number(name) for name in names}
    ordered = sorted(names, key=lambda name: (numbers[name] or 0.0, name))
    if None in numbers.values():
        ordered = sorted(names)
    place = {name: i for i, name in enumerate(ordered)}
    return np.array([place[cell] for cell in cells], np.int32), tuple(ordered)


def label_scale(parts: Sequence[npt.NDArray[np.float64]]) -> LabelScale:
    """Mean and deviation of all sites' values, from sums alone; a constant keeps its unit."""
    mean, deviation = federated_statistics.mean_and_deviation(parts)
    largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
    return LabelScale(mean, deviation if deviation > FLAT * largest else 1.0)


def standardise(values: Labels, amount: LabelScale) -> Labels:
    return ((np.asarray(values, np.float64) - amount.shift) / amount.scale).astype(np.float32)


def _amounts(cells: Sequence[str], spelling: str | None, table: RawTable) -> bool:
    """Whether labels nobody has spoken about are numbers to predict, and not names of classes."""
    if spelling is None:
        readers = text.numbers(table.commas).values()
        counted = Counter(cells)
        most = max(sum(n for cell, n in counted.items() if read(cell) is not None) for read in readers)
        return most >= (1 - ODD) * len(cells) and len(counted) > MOST_CLASSES
    found = set(text.values(cells, text.NUMBERS[spelling]).tolist())
    fractions = any(value != int(value) for value in found)
    return len(found) > (2 if fractions else MOST_CLASSES)


def _numbers(table: RawTable, label: str, spelling: str | None, task: str) -> LabelColumn:
    cells = table.columns[label]
    if spelling is None:
        readers = text.numbers(table.commas)
        spelling = max(readers, key=lambda name: sum(readers[name](cell) is not None for cell in set(cells)))
        first = next(place for place, cell in enumerate(cells) if readers[spelling](cell) is None)
        raise UserError(
            f"Line {table.lines[first]}, column {label!r} is {cells[first]!r}, and numbers are predicted; "
            "mend the cell, or make each value a class: --task classification."
        )
    values = text.values(cells, text.NUMBERS[spelling])
    if np.ptp(values / max(1.0, float(np.abs(values).max()))) <= FLAT:
        raise UserError(f"Every row of {table.name} has {label} {cells[0]!r}; there is nothing to predict.")
    why = "as you said" if task == "regression" else f"{len(set(cells)):,} different numbers"
    said = f"{label!r} is predicted as a number ({why}); --task classification makes each value a class."
    return LabelColumn(values, (), (said,))


def _alike(label: str, classes: Sequence[str]) -> list[str]:
    """Classes that differ in capitals alone are two classes, and hardly meant so."""
    same = Counter(name.casefold() for name in classes)
    twice = [name for name in classes if same[name.casefold()] > 1]
    if not twice:
        return []
    return [f"Classes of {label!r} that differ in capitals alone are kept apart: {', '.join(twice)}."]


def _rare(label: str, y: IntArray, classes: Sequence[str]) -> list[str]:
    """Classes of a row or two: typos, perhaps, and judged by next to nothing."""
    counts = np.bincount(y, minlength=len(classes)).tolist()
    said = []
    for name, count in zip(classes, counts, strict=True):
        if count > FEW:
            continue
        rest = [other for other, many in zip(classes, counts, strict=True) if many > FEW]
        like = get_close_matches(name, rest, 1)
        hint = f"; is it {like[0]!r}?" if like else "; mend, join or drop its rows if it is not meant."
        said.append(f"Class {name!r} of {label!r} has {count} row{'s' * (count > 1)}{hint}")
    return said[:SHOWN]


def _check_classes(path: str, label: str, y: IntArray, classes: Sequence[str]) -> None:
    if len(classes) < 2:
        raise UserError(
            f"Every row of {path} has {label} {classes[0]!r}; learning needs two classes or more."
        )
    if 2 * len(classes) > len(y):
        raise UserError(
            f"Column {label!r} has {len(classes)} different values in {len(y)} rows: that is too few rows a "
            "class, or an amount and not a class; pass another --label, group its values, or predict a "
            "number: --task regression."
        )
