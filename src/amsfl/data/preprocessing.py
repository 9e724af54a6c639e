"""Raw rows become features by a recipe: the same code for training rows and for new ones.

And what new rows hold that the training rows had nothing of.
"""

import re
from collections.abc import Callable
from zlib import crc32

import numpy as np

from amsfl.core import UserError, listed
from amsfl.data.cells import Cells, Floats
from amsfl.data.dataset import FloatArray, IntArray
from amsfl.data.raw_table import RawTable
from amsfl.data.read_column import fill_numbers, fill_words, read_words
from amsfl.data.recipe import GAP, NUMERIC, ColumnRecipe, Recipe, format_fill, plural

SHOWN = 5  # names in a sentence
SAID = 20  # remarks on new rows
TOKEN = re.compile(r"\w+")


def encode(recipe: Recipe, table: RawTable) -> FloatArray:
    """The features of every row, float32 [rows, features]."""
    missing = [column.name for column in recipe.columns if column.name not in table.columns]
    if missing:
        more = "" if len(missing) <= SHOWN else f" and {len(missing) - SHOWN} more"
        raise UserError(
            f"{table.name} has no column {', '.join(map(repr, missing[:SHOWN]))}{more}; the model was "
            f"trained with it. Its columns are {listed(table.columns)}."
        )
    x = np.zeros((table.rows, len(recipe.features)), np.float32)
    start = 0
    for column in recipe.columns:
        width = len(column.features)
        ENCODERS[column.read](column, table, sites_of(recipe, table), x[:, start : start + width])
        start += width
    return x


def sites_of(recipe: Recipe, table: RawTable) -> Cells | None:
    return table.columns.get(recipe.client)


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
    sites = sites_of(recipe, table)
    lines = [line for column in recipe.columns for line in _unfamiliar(column, table, sites)]
    more = [f"And {len(lines) - SAID:,} more remarks of this kind."] if len(lines) > SAID else []
    return lines[:SAID] + more


def _unfamiliar(column: ColumnRecipe, table: RawTable, sites: Cells | None) -> list[str]:
    if column.read in NUMERIC:
        numbers, gaps = fill_numbers(column, table, sites)
        lines = [] if column.indicator else _filled(column, int(gaps.sum()), sites)
        if column.scale and column.high is not None:
            far = scaled(column._replace(low=None, high=None), numbers)
            cut = int(((far < (column.low or -np.inf)) | (far > column.high)).sum())
            if cut:
                lines.append(f"{plural(cut, 'value')} of {column.name!r} far from the training rows', cut.")
        return lines
    words, codes = fill_words(column, table, sites)
    lines = [] if column.fill == GAP else _filled(column, int(read_words(column, table).gaps.sum()), sites)
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


def _filled(column: ColumnRecipe, gaps: int, sites: Cells | None) -> list[str]:
    own = "each site's own, of new sites " if column.site_fill and sites is not None else ""
    return [f"{plural(gaps, 'gap')} in {column.name!r} filled ({own}{format_fill(column)})."] if gaps else []
