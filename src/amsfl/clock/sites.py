"""The table of sites: one CSV for `amsfl plan`, `--profile FILE.csv` and `amsfl deploy --profile`.

Whoever reads it takes the columns that it needs and says which it does not use.
"""

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError, nearest

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[Any]] | Sequence[int]  # clients' numbers, or steps
Lines = list[tuple[int, dict[str, str]]]
SEPARATORS = ",;\t"
NAME = "client"  # the column of names; all others hold numbers
SMALLEST, LARGEST = 1e-9, 1e9  # of a cell: seconds, megabits a second, shares, gains


class Column(NamedTuple):
    """What a column holds, and between which bounds."""

    what: str
    least: float = 0.0
    most: float = LARGEST


COLUMNS: dict[str, Column] = {
    "weight": Column("share of the data, on any scale"),
    "step_seconds": Column("seconds of one local step", SMALLEST),
    "latency": Column("seconds a round besides steps and transfer, both ways together"),
    "up_mbps": Column("megabits a second towards the server", SMALLEST),
    "down_mbps": Column("megabits a second from it", SMALLEST),
    "comm_seconds": Column("seconds of all communication of a round, in place of the three before"),
    "gain": Column("worth of a first step"),
    "fading": Column("how fast that fades: the next step is worth exp(-fading) times as much"),
    "jitter": Column("sigma of the lognormal factor on a round's steps and on its transfer", 0.0, 10.0),
    "failure": Column("chance that a round of this client comes to nothing", 0.0, 1.0),
    "on_seconds": Column("mean seconds that the client is there", SMALLEST),
    "off_seconds": Column("mean seconds that it is away between"),
    "joules_step": Column("joules of one local step"),
    "joules_mb": Column("joules of a megabyte, up or down"),
    "cost_mb": Column("money that a megabyte costs, up or down"),
    "epsilon": Column("privacy that this client may spend", SMALLEST),
}


@dataclass(frozen=True)
class Sites:
    """What a table says: the clients' names, () without that column, and a number per client and column."""

    path: Path
    clients: tuple[str, ...]
    columns: Mapping[str, Floats]

    @property
    def count(self) -> int:
        return len(next(iter(self.columns.values())))

    def get(self, column: str) -> Floats | None:
        """A column of numbers, where the table has it."""
        return self.columns.get(column)

    def need(self, *columns: str) -> None:
        """Refuse a table without one of these."""
        for name in columns:
            if name not in self.columns and not (name == NAME and self.clients):
                there = ", ".join([*([NAME] if self.clients else []), *self.columns])
                raise UserError(f"{self.path} has no column {name!r}; the columns there are: {there}.")

    def unused(self, used: Collection[str]) -> str:
        """A sentence on the columns that are not used here; "" if all are."""
        left = [name for name in self.columns if name not in used]
        what = "columns {} of {} have" if len(left) > 1 else "column {} of {} has"
        which = what.format(", ".join(map(repr, left)), self.path.name)
        return f"The {which} no effect here." if left else ""

    def of(self, clients: int, names: Sequence[str] = ()) -> "Sites":
        """The lines of these clients in their order: by name where both sides have names."""
        if self.count != clients:
            raise UserError(
                f"{self.path} has {self.count} lines for {clients} clients; "
                f"give it one line a client, or use --clients {self.count}."
            )
        if not (names and self.clients):
            return self
        for name in self.clients:
            if name not in names:
                raise UserError(f"{self.path}: no client is called {name!r}{nearest(name, names)}.")
        order = [self.clients.index(name) for name in names]  # as many names as lines, and each of them known
        return Sites(self.path, tuple(names), {key: column[order] for key, column in self.columns.items()})


def read_sites(path: Path) -> Sites:
    """The table of a CSV file; each mistake in it is one sentence.

    Args:
        path: Of the CSV.

    Returns:
        Its columns by name.
    """
    header, lines = cells(path, "a CSV file of clients")
    if not set(header) & COLUMNS.keys():
        there = ", ".join(header) or "none"
        raise UserError(
            f"{path} has no column 'step_seconds'; the columns there are: {there}. 'amsfl methods' lists "
            "those of a table of sites."
        )
    for name in header:
        if name != NAME and name not in COLUMNS:
            raise UserError(f"{path} has an unknown column {name!r}{nearest(name, [NAME, *COLUMNS])}.")
        if header.count(name) > 1:
            raise UserError(f"{path} has the column {name!r} twice; keep one.")
    if not lines:
        raise UserError(f"{path} has a header but no clients; add one row per client.")
    long = next((row for row, line in lines if None in line), None)
    if long is not None:
        raise UserError(f"{path}, line {long} has more cells than the header has columns.")
    columns = {
        name: np.array([_number(path, row, name, line[name]) for row, line in lines])
        for name in header
        if name != NAME
    }
    return Sites(path, _names(path, lines) if NAME in header else (), columns)


def _names(path: Path, lines: Sequence[tuple[int, Mapping[str, str | None]]]) -> tuple[str, ...]:
    rows: dict[str, int] = {}
    for row, line in lines:
        name = (line[NAME] or "").strip()
        if not name:
            raise UserError(f"{path}, line {row}: the client has no name; fill in column 'client'.")
        if name in rows:
            raise UserError(
                f"{path}, line {row}: client {name!r} is already on line {rows[name]}; every name once."
            )
        rows[name] = row
    return tuple(rows)


def _number(path: Path, row: int, name: str, text: str | None) -> float:
    where, (_, least, most) = f"{path}, line {row}: {name}", COLUMNS[name]
    try:
        number = float(text or "")
    except ValueError:
        shown = "empty" if not (text or "").strip() else f"{text!r}, not a number"
        raise UserError(f"{where} is {shown}; give a number.") from None
    if not least <= number <= most:
        raise UserError(f"{where} is {number:g}; give a number from {least:g} to {most:g}.")
    return number


def cells(path: Path, wanted: str) -> tuple[Sequence[str], Lines]:
    """The header and the lines of a CSV, each with its number; `wanted` says what it should have been.

    The header says what separates cells; where that is no comma, 0,5 is a half.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            text = list(file)
        separator = max(SEPARATORS, key=text[0].count) if text else ","
        reader = csv.DictReader(text, delimiter=separator)
        header: Sequence[str] = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        lines = [(reader.line_num, line) for line in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot read {path}: {reason}. Give {wanted}.") from error
    if separator == ",":
        return header, lines
    return header, [(row, {name: _decimal(name, cell) for name, cell in line.items()}) for row, line in lines]


def _decimal(column: str, cell: str) -> str:
    """`0,5` as `0.5`, but not in names; anything else as it is. Cells beyond the header come as a list."""
    if column == NAME or not isinstance(cell, str):
        return cell
    return re.sub(r"^(\s*[-+]?\d*),(\d+\s*)$", r"\1.\2", cell)
