# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""How a table becomes numbers, as data: fitted once, kept with the model, applied to new rows alike."""

import re
from collections.abc import Collection, Sequence
from shlex import quote
from typing import NamedTuple

from amsfl.core import UserError

GAP = "(missing)"  # the category of a gap
NAMED = 12  # names in a sentence
FORMS = {  # how text is read that may mean two things; 'year-first' needs no choice
    "decimal-point": "1234.5",
    "decimal-comma": "1234,5",
    "day-first": "day.month.year",
    "month-first": "month/day/year",
    "year-first": "year-month-day",
}
READS = ("number", "date", "words", "keep", "drop", *list(FORMS)[:-1])

Names = str | Sequence[str]


class ColumnRecipe(NamedTuple):
    """One column of a table. A number becomes (value - shift) / scale within limits."""

    name: str
    read: str  # number, date (in days), words (a feature each)
    form: str = ""  # of FORMS, where its training rows were text that needed one
    fill: float | None = None  # what stands for a number's gap; None: a gap is refused
    indicator: bool = False  # one more feature says where a number's gap was
    log: bool = False  # of 1 + value, before shift and scale
    shift: float = 0.0
    scale: float = 1.0  # 0: the column is constant and nothing is learned from it
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        return self.read in ("number", "date")

    @property
    def features(self) -> tuple[str, ...]:
        if self.read == "words":
            return tuple(f"{self.name}={word}" for word in self.words)
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)


class Recipe(NamedTuple):
    """All columns in the order of the features, and whose rows are whose."""

    columns: tuple[ColumnRecipe, ...]
    label: str = ""
    client: str = ""  # column that names a row's site, "" for none
    missing: tuple[str, ...] = ()  # words and numbers that mean a gap, as in -999
    left_out: dict[str, str] = {}  # column -> why
    remarks: tuple[str, ...] = ()  # what was decided, and how to decide otherwise
    rows: str = ""  # a checksum of the rows that it was fitted to and judged by, to know them again

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.features)


def read_as(drop: Names, columns: Names, known: Collection[str]) -> dict[str, str]:
    """By the name of a column, how the user wants it read; which are meant, only a table can say."""
    asked = {}
    for pair in split_names(columns, {f"{name}={how}" for name in known for how in READS}):
        name, sign, how = (part.strip() for part in pair.rpartition("="))
        if not sign or how not in READS:
            raise UserError(f"--columns {pair!r} is not NAME=HOW with HOW one of {', '.join(READS)}.")
        asked[name] = how
    return asked | dict.fromkeys(split_names(drop, known), "drop")


def columns_flag(name: str, how: str) -> str:
    """What to type, in quotes where the name has spaces: `--columns 'weight kg=keep'`."""
    return f"--columns {quote(f'{name}={how}')}"


def split_names(names: Names, known: Collection[str] = ()) -> tuple[str, ...]:
    """Names between commas; a known one may hold commas, and the longest that fits is meant."""
    if not isinstance(names, str):
        return tuple(name if name in known else name.strip() for name in map(str, names) if name.strip())
    parts, meant = names.split(","), []
    while parts:
        lengths = range(len(parts), 0, -1)
        length = next((size for size in lengths if ",".join(parts[:size]).strip() in known), 1)
        meant.append(",".join(parts[:length]).strip())
        parts = parts[length:]
    return tuple(filter(None, meant))


def whole(text: str) -> str:
    """1.0 is 1: so many programs write a column of whole numbers that has a gap."""
    return re.sub(r"^([+-]?\d+)\.0+$", r"\1", text) if text.endswith("0") else text


def plural(count: int, noun: str) -> str:
    more = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{more}"
