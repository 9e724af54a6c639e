"""From a cell's text to a number: amounts with a point or a comma, dates in the usual spellings."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Read = Callable[[str], float | None]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")  # 1,234,567.8
COMMA = re.compile(r"[+-]?\d+(\.\d{3})*(,\d+)?([eE][+-]?\d+)?")  # 1234,5 and 1.234,5
DATES = {  # in this order: the first that fits every cell
    "iso": "year-month-day",
    "%d.%m.%Y": "day.month.year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y": "month/day/year",
    "%Y/%m/%d": "year/month/day",
    "%d-%m-%Y": "day-month-year",
    "%d.%m.%y": "day.month.year",
    "%d/%m/%y": "day/month/year",
    "%m/%d/%y": "month/day/year",
}
MARKS = {"-", "--", ".", "none", "missing", "unknown", "n.a.", "nd", "nil", "k.a."}  # gaps, among numbers
HOURS = ("", " %H:%M", " %H:%M:%S")


def number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def grouped(cell: str) -> float | None:
    return number(cell.replace(",", "")) if GROUPED.fullmatch(cell) else number(cell)


def comma(cell: str) -> float | None:
    return number(cell.replace(".", "").replace(",", ".")) if COMMA.fullmatch(cell) else None


NUMBERS: dict[str, Read] = {"point": number, "grouped": grouped, "comma": comma}


def numbers(commas: bool) -> dict[str, Read]:
    """Readers of numbers, the likelier first: where commas do not separate cells, they are decimal ones."""
    order = ("point", "comma", "grouped") if commas else ("point", "grouped", "comma")
    return {name: NUMBERS[name] for name in order}


def days(cell: str, spelling: str) -> float | None:
    """Days since 1970, with a fraction for the hour; None if this is no such date."""
    try:
        if spelling == "iso":
            if cell.isdigit():
                return None  # 20240131 is a number until somebody says otherwise
            when = datetime.fromisoformat(cell)
        else:
            when = datetime.strptime(cell, spelling + HOURS[cell.count(":")])
    except (ValueError, IndexError):
        return None
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - EPOCH).total_seconds() / 86_400


def written(value: float, spelling: str) -> str:
    """The date of so many days, as `days` reads it."""
    when = EPOCH + timedelta(days=value)
    return when.isoformat() if spelling == "iso" else when.strftime(spelling + HOURS[-1])


def shown(when: str) -> str:
    """A written date for people: without the hour where it is midnight."""
    return re.sub(r"[T ]00:00(:00)?(\+00:00)?$", "", when)


def date_reader(spelling: str) -> Read:
    return lambda cell: days(cell, spelling)


def values(cells: Sequence[str], read: Read) -> Floats:
    """Every cell's number, nan for a gap and for what cannot be read (`unread` tells them apart)."""
    known: dict[str, float] = {}
    for cell in set(cells):
        found = read(cell) if cell else None
        known[cell] = np.nan if found is None else found
    return np.array([known[cell] for cell in cells], np.float64)


def unmarked(cells: Sequence[str]) -> list[str]:
    """Of a column of numbers or dates, with '' where people write a word for a gap."""
    return ["" if cell.lower() in MARKS else cell for cell in cells]


def spelling(cells: Sequence[str], readers: dict[str, Read]) -> str | None:
    """The first reader that reads every one of some cells."""
    some = set(cells)
    return next((name for name, read in readers.items() if all(read(c) is not None for c in some)), None)
