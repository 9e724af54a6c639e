"""Any CSV with a header and a label column becomes a Dataset; a client column becomes its partition."""

import csv
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError, nearest
from amsfl.data.dataset import Dataset, FloatArray, IntArray, split

LABELS = ("label", "target", "class", "y")
CLIENTS = ("client", "site", "hospital")
MISSING = {"", "na", "n/a", "nan", "null", "?"}
MOST_WORDS = 64  # distinct words a column may have before it looks like an identifier
FAR = 10.0  # standard deviations beyond which a value is cut off: one typo must not own the gradient
SCALES = ("standard", "none")


class Table(NamedTuple):
    """The file as text, column by column, with the line each row came from."""

    columns: dict[str, list[str]]
    lines: list[int]


def load_csv(
    path: str,
    label: str | None = None,
    client_column: str | None = None,
    holdout: float = 0.2,
    seed: int = 0,
    scale: str = "standard",
) -> Dataset:
    """Words become one-hot columns over the values present; numbers are standardised.

    Standardising is fitted: it takes each column's mean and standard deviation over the training pool
    (never the hold-out). Clients of a real federation can agree on the same two numbers without showing
    a row, by adding up three sums each (rows, values, squares) before the first round. `scale='none'`
    leaves numbers as they are, for files already on a common scale. Constant columns become zeros.
    """
    if scale not in SCALES:
        raise UserError(f"Unknown scale {scale!r}{nearest(scale, SCALES)}.")
    table = read(path)
    label = pick(table, label, LABELS, "label")
    if label is None:
        raise UserError(
            f"{path} has no label column; its columns are {', '.join(table.columns)}. "
            "Say which one holds the class: --label NAME."
        )
    client = pick(table, client_column, CLIENTS, "client-column")
    if client == label:
        raise UserError(f"Column {label!r} cannot be both the label and the client; pass another --label.")
    y, classes = codes(table.columns[label])
    _check_classes(path, label, y, classes)
    sites, site_names = codes(table.columns[client]) if client else (None, ())
    train, test = split(y, holdout, seed, sites)
    names = [name for name in table.columns if name not in (label, client)]
    parts = [_features(table, name, train, scale) for name in names]
    if not parts:
        raise UserError(f"{path} has no columns besides {label!r}; there is nothing to learn from.")
    x = np.concatenate([values for values, _ in parts], axis=1)
    return Dataset(
        name=f"csv:{Path(path).name}",
        x=x[train],
        y=y[train],
        evals={"holdout": (x[test], y[test])},
        classes=classes,
        features=tuple(name for _, given in parts for name in given),
        sites=None if sites is None else sites[train],
        site_names=site_names,
    )


def read(path: str) -> Table:
    """Header and rows, complete: a short line or an empty cell is an error that names its place."""
    try:
        opener = gzip.open if path.lower().endswith(".gz") else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if row]
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise UserError(f"{path} cannot be read as CSV text in UTF-8: {error}.") from error
    if not rows:
        raise UserError(f"{path} has no rows below its first line; it needs a header and data.")
    if all(_number(name) is not None for name in header) or "" in header or len(set(header)) < len(header):
        raise UserError(
            f"The first line of {path} must name the columns, each differently; it reads {','.join(header)}."
        )
    for line, row in rows:
        if len(row) != len(header):
            raise UserError(f"{path}, line {line} has {len(row)} cells; the header has {len(header)}.")
        for name, cell in zip(header, row, strict=True):
            if cell.strip().lower() in MISSING:
                found = cell.strip() or "empty"
                raise UserError(
                    f"{path}, line {line}, column {name!r} is {found}; fill it in or drop the row."
                )
    cells = zip(*(row for _, row in rows), strict=True)
    columns = {name: [cell.strip() for cell in column] for name, column in zip(header, cells, strict=True)}
    return Table(columns, [line for line, _ in rows])


def pick(table: Table, asked: str | None, usual: Sequence[str], flag: str) -> str | None:
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


def codes(cells: list[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Each cell's index among the distinct ones, in order: as numbers if all are, else as words."""
    names = set(cells)
    numbers = {name: _number(name) for name in names}
    ordered = sorted(names, key=lambda name: (numbers[name] or 0.0, name))
    if None in numbers.values():
        ordered = sorted(names)
    place = {name: i for i, name in enumerate(ordered)}
    return np.array([place[cell] for cell in cells], np.int32), tuple(ordered)


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


def _features(
    table: Table, name: str, train: npt.NDArray[np.bool_], scale: str
) -> tuple[FloatArray, tuple[str, ...]]:
    """One column of numbers, or one column per word."""
    cells = table.columns[name]
    values = [_number(cell) for cell in cells]
    odd = [i for i, value in enumerate(values) if value is None]
    if not odd:
        numbers = np.array(values, np.float64)
        if not np.isfinite(numbers).all():
            bad = int(np.argmin(np.isfinite(numbers)))
            raise UserError(f"Line {table.lines[bad]}, column {name!r} is {cells[bad]}; it should be finite.")
        return _scaled(numbers, train, scale)[:, None].astype(np.float32), (name,)
    if len(odd) <= len(cells) / 10:
        raise UserError(
            f"Line {table.lines[odd[0]]}, column {name!r} is {cells[odd[0]]!r}, but the rest are "
            "numbers; mend the cell or drop the row."
        )
    place, words = codes(cells)
    if len(words) > MOST_WORDS:
        raise UserError(
            f"Column {name!r} has {len(words)} different words, more than {MOST_WORDS}: it looks like an "
            "identifier; drop it from the file or group its values."
        )
    return np.eye(len(words), dtype=np.float32)[place], tuple(f"{name}={word}" for word in words)


def _scaled(
    values: npt.NDArray[np.float64], train: npt.NDArray[np.bool_], scale: str
) -> npt.NDArray[np.float64]:
    if scale == "none":
        return values
    shrunk = values / max(float(np.abs(values).max()), 1e-300)  # so that squares cannot overflow
    mean, deviation = shrunk[train].mean(), shrunk[train].std()
    if deviation < 1e-12:
        return np.zeros_like(values)
    return np.asarray(np.clip((shrunk - mean) / deviation, -FAR, FAR), np.float64)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
