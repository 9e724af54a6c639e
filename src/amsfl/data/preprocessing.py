# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""How a table becomes numbers, as data: fitted once, kept with the model, applied to new rows alike."""

import re
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.core import UserError
from amsfl.data.cells import Cells, Floats, Mask, format_date, is_mark, parse_dates, parse_numbers
from amsfl.data.dataset import FloatArray, IntArray
from amsfl.data.read_table import RawTable

SHOWN = 5  # names in a sentence
NUMERIC = ("number", "date")
GAP = "(missing)"  # the category of a gap
TOKEN = re.compile(r"\w+")


class ColumnRecipe(NamedTuple):
    """One column of a table. A number becomes (value - shift) / scale within limits."""

    name: str
    read: str  # number, date, words (one column a word), hash (a bucket), text (its words), frequency
    spelling: str = ""  # of numbers: point, comma, grouped; of dates: as strptime has it
    unit: str = ""  # that its numbers were written with
    codes: tuple[str, ...] = ()  # words and numbers that stand for a gap, as in -999
    fill: float | str | None = None  # what stands for a gap; None: a gap is refused
    site_fill: dict[str, float | str] = {}  # the same by site, where sites fill their own
    indicator: bool = False  # of numbers: one more feature says where a gap was
    log: bool = False  # of 1 + value, before shift and scale
    shift: float = 0.0
    scale: float = 1.0  # 0: the column is constant and nothing is learned from it
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    counts: dict[str, int] = {}  # of frequency
    buckets: int = 0  # of hash and text

    @property
    def constant(self) -> bool:
        """The same in all training rows."""
        if self.read == "words":
            return len(self.words) < 2
        return not self.scale and not self.indicator

    @property
    def features(self) -> tuple[str, ...]:
        if self.read == "words":
            return tuple(f"{self.name}={word}" for word in self.words)
        if self.buckets:
            return tuple(f"{self.name}#{bucket}" for bucket in range(self.buckets))
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)


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
    x = np.zeros((table.rows, len(recipe.features)), np.float32)
    start = 0
    for column in recipe.columns:
        width = len(column.features)
        ENCODERS[column.read](column, table, _sites(recipe, table), x[:, start : start + width])
        start += width
    return x


def _sites(recipe: Recipe, table: RawTable) -> Cells | None:
    return table.columns.get(recipe.client)


def read_numbers(column: ColumnRecipe, table: RawTable) -> Floats:
    """Numbers, or dates in days; nan for a gap. A cell that is neither is an error that names its line."""
    cells = table.columns[column.name]
    if cells.kind in ("number", "flag") and column.read == "number":
        return _drop_codes(column, _finite(column, table, cells.numbers))
    if cells.kind == "date" and column.read == "date":
        return cells.numbers
    if (
        cells.kind == "text"
        and cells.point is not None
        and (column.read, column.spelling)
        == (
            "number",
            "point",
        )
    ):
        return _drop_codes(column, cells.point)
    words = cells.vocabulary
    if column.read == "date":
        numbers = parse_dates(words, column.spelling)
    else:
        _check_commas(column, table)
        numbers = parse_numbers(words, column.spelling, column.unit)
    numbers[is_gap(column, words)] = np.nan
    bad = np.isnan(numbers) & ~is_gap(column, words)
    if bad.any():
        _refuse(column, table, int(np.flatnonzero(cells.codes == np.flatnonzero(bad)[0])[0]))
    return _drop_codes(column, np.append(numbers, np.nan)[cells.codes])


def is_gap(column: ColumnRecipe, words: pa.Array) -> Mask:
    """Which words of a column of numbers or dates mean a gap."""
    codes: Mask = np.asarray(pc.is_in(words, pa.array(column.codes, pa.string())))
    return is_mark(words) | codes


def _drop_codes(column: ColumnRecipe, numbers: Floats) -> Floats:
    codes = [float(code) for code in column.codes if _is_number(code)]
    return np.where(np.isin(numbers, codes), np.nan, numbers) if codes else numbers


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _finite(column: ColumnRecipe, table: RawTable, numbers: Floats) -> Floats:
    infinite = np.isinf(numbers)
    if infinite.any():
        _refuse(column, table, int(np.argmax(infinite)))
    return numbers


def _refuse(column: ColumnRecipe, table: RawTable, row: int) -> None:
    what = "a date" if column.read == "date" else "a finite number"
    raise UserError(
        f"{table.name}, line {table.lines[row]}, column {column.name!r} is {table.cell(column.name, row)!r}; "
        f"it should be {what}."
    )


def _check_commas(column: ColumnRecipe, table: RawTable) -> None:
    """A point where training had decimal commas may be a decimal or a thousands point: nobody can tell."""
    if column.spelling != "comma":
        return
    words = table.columns[column.name].vocabulary
    pointed = np.asarray(pc.match_substring(words, "."))
    if not pointed.any() or pc.any(pc.match_substring(words, ",")).as_py():
        return
    code = int(np.argmax(pointed))
    row, word = int(np.argmax(table.columns[column.name].codes == code)), words[code].as_py()
    raise UserError(
        f"{table.name}, line {table.lines[row]}, column {column.name!r} is {word!r}, and the model was "
        f"trained with decimal commas: it may mean {word.replace('.', ',')} or {word.replace('.', '')}. "
        "Write the column with decimal commas, or pass it as numbers in a data frame or Parquet file."
    )


def fill_numbers(column: ColumnRecipe, table: RawTable, sites: Cells | None) -> tuple[Floats, Mask]:
    """The column's numbers without gaps, and where the gaps were."""
    numbers = read_numbers(column, table)
    gaps = np.isnan(numbers)
    if not gaps.any():
        return numbers, gaps
    if column.fill is None:
        raise _gap_error(column, table, int(np.argmax(gaps)))
    fill = np.full(len(numbers), float(column.fill))
    if column.site_fill and sites is not None:
        own = np.array([float(column.site_fill.get(word, column.fill)) for word in sites.words])
        fill = np.append(own, float(column.fill))[sites.codes]
    return np.where(gaps, fill, numbers), gaps


def _gap_error(column: ColumnRecipe, table: RawTable, row: int) -> UserError:
    return UserError(
        f"{table.name}, line {table.lines[row]}, column {column.name!r} is empty; fill it in, or let "
        "--impute indicator say that it is missing."
    )


def read_words(column: ColumnRecipe, table: RawTable) -> Cells:
    """The column as words; what the user calls a gap is one."""
    cells = table.columns[column.name]
    if not column.codes:
        return cells
    return Cells(pc.if_else(pc.is_in(cells.text, pa.array(column.codes, pa.string())), None, cells.text))


def fill_words(column: ColumnRecipe, table: RawTable, sites: Cells | None) -> tuple[list[str], IntArray]:
    """Distinct words, a gap's among them, and every row's place among them."""
    cells = read_words(column, table)
    codes, words = cells.codes.astype(np.int64), list(cells.words)
    gaps = codes < 0
    if gaps.any():
        if column.fill is None:
            raise _gap_error(column, table, int(np.argmax(gaps)))
        fills = {"": str(column.fill)} | {site: str(word) for site, word in column.site_fill.items()}
        place = {site: len(words) + nth for nth, site in enumerate(fills)}
        words += fills.values()
        by_site = sites.words if sites is not None and column.site_fill else []
        codes[gaps] = place[""]
        if sites is not None and by_site:
            own = np.array([place.get(site, place[""]) for site in by_site] + [place[""]])
            codes[gaps] = own[sites.codes[gaps]]
    return words, codes


def scaled(column: ColumnRecipe, values: Floats) -> Floats:
    values = np.log1p(values) if column.log else values
    if not column.scale:
        return np.zeros_like(values)
    with np.errstate(over="ignore"):  # cut off below
        standard = values / column.scale - column.shift / column.scale
    if column.low is not None or column.high is not None:
        standard = np.clip(standard, column.low, column.high)
    return np.asarray(standard, np.float64)


def _encode_number(column: ColumnRecipe, table: RawTable, sites: Cells | None, x: FloatArray) -> None:
    numbers, gaps = fill_numbers(column, table, sites)
    x[:, 0] = scaled(column, numbers)
    if column.indicator:
        x[:, 1] = gaps


def _encode_words(column: ColumnRecipe, table: RawTable, sites: Cells | None, x: FloatArray) -> None:
    words, codes = fill_words(column, table, sites)
    place = {word: nth for nth, word in enumerate(column.words)}
    _one_hot(np.array([place.get(word, -1) for word in words], np.int64)[codes], x)


def _encode_hash(column: ColumnRecipe, table: RawTable, sites: Cells | None, x: FloatArray) -> None:
    words, codes = fill_words(column, table, sites)
    _one_hot(np.array([crc32(word.encode()) % column.buckets for word in words], np.int64)[codes], x)


def _one_hot(places: IntArray, x: FloatArray) -> None:
    """One column a place; a word that no training row had (-1) is all zeros."""
    familiar = np.flatnonzero(places >= 0)
    x[familiar, places[familiar]] = 1


def _encode_text(column: ColumnRecipe, table: RawTable, sites: Cells | None, x: FloatArray) -> None:
    """Hashed words, each with its share of the cell's words."""
    words, codes = fill_words(column, table, sites)
    bags = np.zeros((len(words), column.buckets), np.float32)
    for row, cell in enumerate(words):
        for token in TOKEN.findall(cell.lower()):
            bags[row, crc32(token.encode()) % column.buckets] += 1
    bags /= np.maximum(np.sqrt((bags**2).sum(1, keepdims=True)), 1)
    x[:] = bags[codes]


def _encode_frequency(column: ColumnRecipe, table: RawTable, sites: Cells | None, x: FloatArray) -> None:
    words, codes = fill_words(column, table, sites)
    x[:, 0] = scaled(column, np.array([column.counts.get(word, 0) for word in words], np.float64)[codes])


ENCODERS: dict[str, Callable[[ColumnRecipe, RawTable, Cells | None, FloatArray], None]] = {
    "number": _encode_number,
    "date": _encode_number,
    "words": _encode_words,
    "hash": _encode_hash,
    "text": _encode_text,
    "frequency": _encode_frequency,
}


def unfamiliar_cells(recipe: Recipe, table: RawTable) -> list[str]:
    """What of new rows the training rows had nothing of: gaps, words never met, numbers far outside.

    They are predicted all the same, and whoever asks should know by what.
    """
    return [line for column in recipe.columns for line in _unfamiliar(column, table, _sites(recipe, table))]


def _unfamiliar(column: ColumnRecipe, table: RawTable, sites: Cells | None) -> list[str]:
    if column.read in NUMERIC:
        numbers, gaps = fill_numbers(column, table, sites)
        lines = [] if column.indicator else _filled(column, int(gaps.sum()))
        if column.scale and column.high is not None:
            far = scaled(column._replace(low=None, high=None), numbers)
            cut = int(((far < (column.low or -np.inf)) | (far > column.high)).sum())
            if cut:
                lines.append(f"{plural(cut, 'value')} of {column.name!r} far from the training rows', cut.")
        return lines
    words, codes = fill_words(column, table, sites)
    lines = [] if column.fill == GAP else _filled(column, int(read_words(column, table).gaps.sum()))
    familiar = {"words": column.words, "frequency": column.counts}.get(column.read)
    if familiar is not None:
        strange = np.array([word not in familiar for word in words], bool)
        count = int(strange[codes].sum())
        if count:
            some = sorted(word for word, new in zip(words, strange, strict=True) if new)
            lines.append(
                f"{plural(count, 'cell')} of {column.name!r} with words that no training row had "
                f"({', '.join(some[:SHOWN])}): nothing is known of them."
            )
    return lines


def _filled(column: ColumnRecipe, gaps: int) -> list[str]:
    return [f"{plural(gaps, 'gap')} in {column.name!r} filled ({format_fill(column)})."] if gaps else []


def format_fill(column: ColumnRecipe) -> str:
    """What stands for a gap, for people."""
    if column.read == "date":
        return format_date(float(column.fill or 0), column.spelling or "iso")
    if column.read == "number":
        value = float(column.fill or 0)
        return "0" if abs(value) < 1e-9 * max(column.scale, 1e-300) else f"{value:.6g}"
    return str(column.fill)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
