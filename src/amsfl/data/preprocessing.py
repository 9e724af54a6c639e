"""Raw rows become features by a recipe: the same code for training rows and for new ones.

And what new rows hold that the training rows had nothing of.
"""

import re
from zlib import crc32

import numpy as np

from amsfl.core import UserError, listed
from amsfl.data.cells import Cells, Floats
from amsfl.data.dataset import FloatArray
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
        end = start + len(column.features)
        _encode_column(column, table, table.columns.get(recipe.client), x[:, start:end])
        start = end
    return x


def _encode_column(column: ColumnRecipe, table: RawTable, sites: Cells | None, x: FloatArray) -> None:
    """Into its features, which are zeros."""
    if column.read in (*NUMERIC, "frequency"):
        numbers, gaps = fill_numbers(column, table, sites)
        x[:, 0] = scaled(column, numbers)
        if column.indicator:
            x[:, 1] = gaps
        return
    words, codes = fill_words(column, table, sites)
    if column.read == "text":  # hashed words, each with its share of the cell's words
        bags = np.zeros((len(words), column.buckets), np.float32)
        for row, cell in enumerate(words):
            for token in TOKEN.findall(cell.lower()):
                bags[row, crc32(token.encode()) % column.buckets] += 1
        bags /= np.maximum(np.sqrt((bags**2).sum(1, keepdims=True)), 1)
        x[:] = bags[codes]
        return
    if column.read == "hash":
        places = [crc32(word.encode()) % column.buckets for word in words]
    else:
        known = {word: nth for nth, word in enumerate(column.words)}
        places = [known.get(word, -1) for word in words]
    place = np.array(places, np.int64)[codes]
    familiar = np.flatnonzero(place >= 0)  # a word that no training row had is all zeros
    x[familiar, place[familiar]] = 1


def scaled(column: ColumnRecipe, values: Floats) -> Floats:
    values = np.log1p(values) if column.log else values
    if not column.scale:
        return np.zeros_like(values)
    with np.errstate(over="ignore"):  # cut off below
        standard = values / column.scale - column.shift / column.scale
    if column.low is not None or column.high is not None:
        standard = np.clip(standard, column.low, column.high)
    return np.asarray(standard, np.float64)


def unfamiliar_cells(recipe: Recipe, table: RawTable) -> list[str]:
    """What of new rows the training rows had nothing of: gaps, words never met, numbers far outside.

    They are predicted all the same, and whoever asks should know by what.
    """
    sites = table.columns.get(recipe.client)
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
