# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""How a table becomes numbers, as data: fitted once, kept with the model, applied to new rows alike."""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError
from amsfl.data import cell_values as text
from amsfl.data.dataset import FloatArray
from amsfl.data.read_table import RawTable
from amsfl.data.units import bare

Floats = npt.NDArray[np.float64]
SHOWN = 5  # names of columns in a sentence


class ColumnRecipe(NamedTuple):
    """One column of a table. A gap is filled; a number becomes (value - shift) / scale within limits."""

    name: str
    read: str  # number, date, words (one column a word), hash (one a bucket), frequency (how common it is)
    spelling: str = ""  # of numbers: point, comma, grouped; of dates: as strptime has it
    fill: str = ""  # what stands for a gap, as a cell; "": a gap is refused
    site_fill: dict[str, str] = {}  # the same by site, where sites fill their own
    log: bool = False  # of 1 + value, before shift and scale
    shift: float = 0.0
    scale: float = 1.0  # 0: the column is constant and says nothing
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    counts: dict[str, int] = {}  # of frequency
    buckets: int = 0  # of hash
    unit: str = ""  # that its numbers were written with

    @property
    def constant(self) -> bool:
        """The same in all training rows."""
        if self.read == "words":
            return len(self.words) < 2
        return not self.scale

    @property
    def features(self) -> tuple[str, ...]:
        if self.read == "words":
            return tuple(f"{self.name}={word}" for word in self.words)
        if self.read == "hash":
            return tuple(f"{self.name}#{bucket}" for bucket in range(self.buckets))
        return (self.name,)


class Recipe(NamedTuple):
    """All columns in the order of the features, and whose rows are whose."""

    columns: tuple[ColumnRecipe, ...]
    label: str = ""
    client: str = ""  # column that names a row's site, "" for none
    left_out: dict[str, str] = {}  # column -> why
    remarks: tuple[str, ...] = ()  # what was decided, and how to decide otherwise

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.features)


def encode(recipe: Recipe, table: RawTable) -> FloatArray:
    """The features of every row, float32 [rows, features]."""
    missing = [column.name for column in recipe.columns if column.name not in table.columns]
    if missing:
        more = "" if len(missing) <= SHOWN else f" and {len(missing) - SHOWN} more"
        raise UserError(
            f"{table.name} has no column {', '.join(map(repr, missing[:SHOWN]))}{more}; the model was "
            f"trained with it. Its columns are {', '.join(table.columns)}."
        )
    sites = table.columns.get(recipe.client)
    return np.concatenate([_encoded(column, table, sites) for column in recipe.columns], axis=1)


def unfamiliar_cells(recipe: Recipe, table: RawTable) -> list[str]:
    """What of new rows the training rows had nothing of: gaps, words never met, numbers far outside.

    They are predicted all the same, and whoever asks should know by what.
    """
    sites, said = table.columns.get(recipe.client), []
    for column in recipe.columns:
        cells = filled(column, table, sites)
        gaps = sum(not cell for cell in _cells(column, table))
        if gaps:
            said.append(f"{_many(gaps, 'gap')} in {column.name!r} filled ({text.shown(column.fill)}).")
        known = {"words": column.words, "frequency": column.counts}.get(column.read)
        strange = [] if known is None else [cell for cell in cells if cell not in known]
        if strange:
            said.append(
                f"{_many(len(strange), 'cell')} of {column.name!r} with words that no training row had "
                f"({', '.join(sorted(set(strange))[:SHOWN])}): nothing is known of them."
            )
        if column.read in ("number", "date") and column.scale and column.high is not None:
            far = scaled(column._replace(low=None, high=None), read_values(column, cells, table))
            cut = int(((far < (column.low or -np.inf)) | (far > column.high)).sum())
            if cut:
                said.append(f"{_many(cut, 'value')} of {column.name!r} far from the training rows', cut.")
    return said


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _cells(column: ColumnRecipe, table: RawTable) -> Sequence[str]:
    """As the table has them; of numbers and dates, a word for a gap is one."""
    cells = table.columns[column.name]
    if column.unit:
        cells = [bare(cell, column.unit) or cell for cell in cells]
    marked = column.read in ("number", "date") and not text.MARKS.isdisjoint(map(str.lower, cells))
    return text.unmarked(cells) if marked else cells


def filled(column: ColumnRecipe, table: RawTable, sites: Sequence[str] | None) -> list[str]:
    """The column's cells, gaps filled."""
    cells = _cells(column, table)
    if "" not in cells:
        return list(cells)
    if not column.fill:
        line = table.lines[cells.index("")]
        raise UserError(
            f"{table.name}, line {line}, column {column.name!r} is empty; fill it in, or let --impute shared "
            "do so."
        )
    if not column.site_fill or sites is None:
        return [cell or column.fill for cell in cells]
    own = column.site_fill
    return [cell or own.get(site, column.fill) for cell, site in zip(cells, sites, strict=True)]


def reader(column: ColumnRecipe) -> text.Read:
    return text.date_reader(column.spelling) if column.read == "date" else text.NUMBERS[column.spelling]


def read_values(column: ColumnRecipe, cells: Sequence[str], table: RawTable) -> Floats:
    """The cells as numbers; a cell that is none is an error that names its line."""
    values = text.values(cells, reader(column))
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        first = int(bad[0])
        what = "a date" if column.read == "date" else "a finite number"
        raise UserError(
            f"{table.name}, line {table.lines[first]}, column {column.name!r} is {cells[first]!r}; it should "
            f"be {what}."
        )
    return values


def scaled(column: ColumnRecipe, values: Floats) -> Floats:
    values = np.log1p(values) if column.log else values
    if not column.scale:
        return np.zeros_like(values)
    with np.errstate(over="ignore"):  # cut off below
        found = values / column.scale - column.shift / column.scale
    if column.low is not None or column.high is not None:
        found = np.clip(found, column.low, column.high)
    return np.asarray(found, np.float64)


def _encoded(column: ColumnRecipe, table: RawTable, sites: Sequence[str] | None) -> FloatArray:
    return ENCODERS[column.read](column, filled(column, table, sites), table)


def _number(column: ColumnRecipe, cells: Sequence[str], table: RawTable) -> FloatArray:
    return scaled(column, read_values(column, cells, table))[:, None].astype(np.float32)


def _words(column: ColumnRecipe, cells: Sequence[str], table: RawTable) -> FloatArray:
    place = {word: i for i, word in enumerate(column.words)}
    return _one_hot([place.get(cell, -1) for cell in cells], len(column.words))


def _hash(column: ColumnRecipe, cells: Sequence[str], table: RawTable) -> FloatArray:
    return _one_hot([crc32(cell.encode()) % column.buckets for cell in cells], column.buckets)


def _frequency(column: ColumnRecipe, cells: Sequence[str], table: RawTable) -> FloatArray:
    common = np.array([column.counts.get(cell, 0) for cell in cells], np.float64)
    return scaled(column, common)[:, None].astype(np.float32)


def _one_hot(places: Sequence[int], width: int) -> FloatArray:
    """One column a place; a word never met before (-1) is all zeros."""
    found = np.zeros((len(places), width), np.float32)
    where = np.array(places, np.int64)
    met = np.flatnonzero(where >= 0)
    found[met, where[met]] = 1
    return found


ENCODERS: dict[str, Callable[[ColumnRecipe, Sequence[str], RawTable], FloatArray]] = {
    "number": _number,
    "date": _number,
    "words": _words,
    "hash": _hash,
    "frequency": _frequency,
}
