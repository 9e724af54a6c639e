"""How each column of a table is to be read: inferred from its cells, or as the user says.

A spelling is no statistic, so it is chosen by all rows; what depends on how often cells occur is counted in
the training rows.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.core import UserError
from amsfl.data.cells import Floats
from amsfl.data.column_options import ColumnOptions
from amsfl.data.dataset import IntArray
from amsfl.data.dates import DATES
from amsfl.data.federated_statistics import TrainingRows
from amsfl.data.raw_table import RawTable
from amsfl.data.read_column import code_numbers, is_gap, read_words
from amsfl.data.recipe import NUMERIC, ColumnRecipe, plural
from amsfl.data.spelling import (
    LIMIT,
    SAMPLE,
    are_ranges,
    has_unit,
    may_group_thousands,
    parse,
    reads_all,
)

MOST_WORDS = 64  # distinct words that get a column each; more are hashed
BUCKETS = {"hash": 64, "text": 256}
ODD = 0.1  # share of cells that do not fit the others: below it they are typos, above it all are words
CODE = re.compile(r"-(9{2,}|1)(\.0)?$|9{3,}(\.0)?$")  # -999 and the like, which mean a gap in many files


def infer_column(
    table: RawTable, name: str, rows: TrainingRows, how: str, options: ColumnOptions
) -> tuple[ColumnRecipe, list[str]]:
    """How the column is read, before gaps and scales, and remarks on it."""
    cells, base = table.columns[name], ColumnRecipe(name, how, codes=options.codes)
    if cells.written is not None and how in ("", "date" if cells.kind == "date" else "number"):
        base = base._replace(spellings=cells.written.spellings, unit=cells.written.unit)
    if cells.kind in ("number", "flag") and how in ("", "number"):
        spelling = "flag" if cells.kind == "flag" else "point"
        return base._replace(read="number", spelling=spelling), ask_codes(base, cells.numbers[rows.all])
    if cells.kind == "date" and how in ("", "date"):
        return base._replace(read="date", spelling="iso"), []
    if cells.point is not None and how in ("", "number") and not table.groups_by_points(name):
        return base._replace(read="number", spelling="point"), ask_codes(base, cells.point[rows.all])
    remarks: list[str] = []
    for read in NUMERIC:
        if how in ("", read):
            column, notes = _infer_numeric(table, base._replace(read=read), how == read)
            if column is not None:
                return column, notes
            remarks += notes
    words = read_words(base, table)
    counts = sum(rows.count_words(words.codes, len(words.words)))
    different = int((np.asarray(counts) > 0).sum())
    if not how and different > MOST_WORDS:
        note = (
            f"{name!r} has {different:,} different words, hashed into {BUCKETS['hash']} columns; --columns "
            f"{name}=frequency, words or drop decide otherwise."
        )
        return base._replace(read="hash"), [*remarks, note]
    return base._replace(read=how or "words"), remarks


def _infer_numeric(table: RawTable, base: ColumnRecipe, asked: bool) -> tuple[ColumnRecipe | None, list[str]]:
    """As numbers or dates, if every cell fits one spelling; a few that do not are an error."""
    cells = table.columns[base.name]
    vocabulary = cells.vocabulary
    marks = is_gap(base, vocabulary)
    used = vocabulary.filter(pa.array(~marks))
    if not len(used) or (base.read == "number" and not asked and are_ranges(used)):
        return None, []
    some = used[:SAMPLE]  # most columns of words are known for such by a few of them
    spelt = [
        each for each in table.spellings(base, used) if asked or np.isnan(parse(each, some)).mean() <= 0.5
    ]
    column = next((each for each in spelt if reads_all(each, used)), None)
    if column is None:
        counts = np.bincount(cells.codes[cells.codes >= 0], minlength=len(vocabulary))
        _refuse_typos(table, spelt, counts * ~marks, asked)
        return None, [
            f"Most cells of {each.name!r} are {each.read}s, but not {odd!r} and others, so all are words; if "
            f"they are gaps, say --missing={odd}."
            for each in spelt[:1]
            for odd in [used.filter(np.isnan(parse(each, used)))[0].as_py()]
        ]
    return column, describe_reading(column, vocabulary)


def describe_reading(column: ColumnRecipe, words: pa.Array) -> list[str]:
    """Remarks on how these cells of a column of numbers or dates are read."""
    marks, notes = is_gap(column, words), []
    if marks.any():
        some = " and ".join(repr(word) for word in sorted(words.filter(pa.array(marks)).to_pylist()))
        notes.append(f"In {column.name!r}, {some} among numbers or dates is a gap.")
        words = words.filter(pa.array(~marks))
    if column.unit:
        bare = int((~has_unit(words, column.unit)).sum())
        some = f"; {plural(bare, 'different cell')} without it are taken for the same unit" if bare else ""
        notes.append(f"Numbers in {column.name!r} are read without their {column.unit!r}{some}.")
    limits = words.filter(pc.match_substring_regex(words, LIMIT)) if column.read == "number" else []
    if len(limits):
        notes.append(
            f"Cells of {column.name!r} such as {limits[0].as_py()!r} ({len(limits)} different) are detection "
            "limits and read as the limit itself; --missing with such words makes them gaps."
        )
    if column.spelling not in ("point", "iso"):
        notes.append(_describe_spelling(column, may_group_thousands(words)))
    return notes


def ask_codes(column: ColumnRecipe, values: Floats) -> list[str]:
    """Numbers such as -999 that lie outside all others are often a code for a gap: the user knows."""
    present = values[~np.isnan(values)]
    if not len(present):
        return []
    notes = []
    for end in (present.min(), present.max()):
        text, rest = f"{end:g}", present[present != end]
        if not CODE.match(text) or end in code_numbers(column) or len(rest) in (0, len(present)):
            continue
        low, high = rest.min(), rest.max()
        gap = min(abs(end - low), abs(end - high))
        if (end < 0 <= low or end > high) and gap > 0 and (gap > high - low or text == "-1"):
            notes.append(
                f"{column.name!r} is {text} in {plural(len(present) - len(rest), 'row')} and from {low:g} to "
                f"{high:g} in all others: if {text} means a gap, say --missing={text}."
            )
    return notes


def _describe_spelling(column: ColumnRecipe, thousands: bool) -> str:
    if column.read == "date":
        what = "Times" if column.spelling == "time" else "Dates"
        return f"{what} in {column.name!r} are read as {DATES[column.spelling]}, and become days."
    what = "decimal commas (1,5 is one and a half" + (", 1.200 twelve hundred)" if thousands else ")")
    what = "commas between thousands (1,500 is fifteen hundred)" if column.spelling == "grouped" else what
    return f"Numbers in {column.name!r} are read with {what}."


def _refuse_typos(table: RawTable, spelt: list[ColumnRecipe], counts: IntArray, asked: bool) -> None:
    """Where all but a few cells fit a spelling, those few are mistakes, and the first is named."""
    for column in spelt:
        cells = table.columns[column.name]
        odd = np.isnan(parse(column, cells.vocabulary)) & (counts > 0)
        if odd.any() and (counts[odd].sum() <= ODD * counts.sum() or asked):
            row = int(np.argmax(np.append(odd, False)[cells.codes]))
            what = "dates or times" if column.read == "date" else "numbers"
            raise UserError(
                f"Line {table.lines[row]}, column {column.name!r} is {table.cell(column.name, row)!r}, but "
                f"the rest are {what}; mend the cell, or read all of it as words: --columns "
                f"{column.name}=words."
            )
