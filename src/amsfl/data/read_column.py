"""A column's cells as its recipe reads them: numbers, dates in days, or words; and what stands for gaps."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.core import UserError
from amsfl.data.cells import Cells, Floats, Mask
from amsfl.data.dataset import IntArray
from amsfl.data.dates import DATES
from amsfl.data.raw_table import RawTable
from amsfl.data.recipe import ColumnRecipe
from amsfl.data.spelling import is_mark, parse, parse_numbers, plain_word, reads_all

LIKE = {"point": "1234.5", "grouped": "1,234.5", "comma": "1234,5", "flag": "True"}  # numbers, by spelling
CLEARER = {"number": "pass it as numbers in a data frame or Parquet file", "date": "write year-month-day"}


def read_numbers(column: ColumnRecipe, table: RawTable) -> Floats:
    """Numbers, or dates in days; nan for a gap. A cell that is neither is an error that names its line."""
    cells = table.columns[column.name]
    if cells.kind in ("number", "flag") and column.read == "number":
        numbers = cells.numbers
        if np.isinf(numbers).any():
            _refuse(column, table, int(np.argmax(np.isinf(numbers))))
        return _drop_codes(column, _drop_words(column, cells, numbers))
    if cells.kind == "date" and column.read == "date":
        return _drop_words(column, cells, cells.numbers)
    spelling = _spelling_in(table, column)
    if cells.point is not None and column.read == "number" and spelling in ("point", "flag"):
        return _drop_codes(column, cells.point)
    words = cells.vocabulary
    if column.read == "number":
        _check_commas(column, table)
    numbers = parse(column._replace(spelling=spelling), words)
    gaps = is_gap(column, words)
    numbers[gaps] = np.nan
    bad = np.isnan(numbers) & ~gaps
    if bad.any():
        _refuse(column, table, int(np.flatnonzero(cells.codes == np.flatnonzero(bad)[0])[0]))
    return _drop_codes(column, np.append(numbers, np.nan)[cells.codes])


def _spelling_in(table: RawTable, column: ColumnRecipe) -> str:
    """The recipe's; decimal commas where training had points and this file has commas beyond doubt.

    Where sites wrote differently, it is the one of theirs that reads every cell.
    """
    cells = table.columns[column.name]
    other = cells.point is None or table.groups_by_points(column.name)
    if column.spelling == "point" and table.decimal_commas and other:
        return "comma"
    words = cells.vocabulary.filter(pa.array(~is_gap(column, cells.vocabulary))) if column.spellings else []
    columns = [column._replace(spelling=spelling) for spelling in _known_spellings(column)]
    fits = [each for each in columns if column.spellings and reads_all(each, words)]
    for each in fits[1:]:
        differ = parse(each, words) != parse(fits[0], words)
        if differ.any():
            word = words[int(np.argmax(differ))].as_py()
            one, two = (_named(each, each.spelling) for each in (fits[0], each))
            raise UserError(
                f"{table.name}, column {column.name!r} has {word!r}, and sites of the training wrote both "
                f"{one} and {two}: every cell of it fits either; {CLEARER[column.read]}."
            )
    return fits[0].spelling if fits else column.spelling


def _known_spellings(column: ColumnRecipe) -> list[str]:
    return list(dict.fromkeys((column.spelling, *column.spellings)))


def _named(column: ColumnRecipe, spelling: str) -> str:
    return DATES[spelling] if column.read == "date" else LIKE[spelling]


def is_gap(column: ColumnRecipe, words: pa.Array) -> Mask:
    """Which words of a column of numbers or dates mean a gap."""
    codes: Mask = np.asarray(pc.is_in(words, pa.array(column.codes, pa.string())))
    return is_mark(words) | codes


def _drop_words(column: ColumnRecipe, cells: Cells, numbers: Floats) -> Floats:
    """Without the words of sites' own spellings that the user calls gaps."""
    if cells.written is None or not column.codes:
        return numbers
    words = pc.is_in(cells.written.text, pa.array(column.codes, pa.string()))
    return np.where(np.asarray(words), np.nan, numbers)


def _drop_codes(column: ColumnRecipe, numbers: Floats) -> Floats:
    codes = code_numbers(column)
    return np.where(np.isin(numbers, codes), np.nan, numbers) if codes else numbers


def code_numbers(column: ColumnRecipe) -> list[float]:
    """Numbers that stand for a gap."""
    numbers = []
    for code in column.codes:
        with suppress(ValueError):
            numbers.append(float(code))
    return numbers


def _refuse(column: ColumnRecipe, table: RawTable, row: int) -> None:
    known = " or ".join(_named(column, spelling) for spelling in _known_spellings(column))
    what = f"a date, {known}" if column.read == "date" else f"a finite number, as in {known}"
    raise UserError(
        f"{table.name}, line {table.lines[row]}, column {column.name!r} is {table.cell(column.name, row)!r}; "
        f"it should be {what}{' ' * bool(column.unit)}{column.unit}."
    )


def _check_commas(column: ColumnRecipe, table: RawTable) -> None:
    """A point where training had decimal commas may be a decimal or a thousands point: nobody can tell."""
    if column.spelling != "comma" or table.groups_by_points(column.name):
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
    """The column's numbers without gaps, and where the gaps were; of frequency how common each word was."""
    if column.read == "frequency":
        words, codes = fill_words(column, table, sites)
        counts = np.array([column.counts.get(word, 0) for word in words], np.float64)[codes]
        return counts, np.zeros(len(counts), bool)  # a gap is one of the words
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


def means_gap(column: ColumnRecipe, table: RawTable) -> Mask:
    """Which rows have no cell here, or one that the user calls a gap: by its word or by its number."""
    cells = table.columns[column.name]
    if not column.codes:
        return cells.gaps
    words = cells.vocabulary
    coded = np.isin(parse_numbers(words, "point"), code_numbers(column))
    coded |= np.asarray(pc.is_in(words, pa.array(column.codes, pa.string())))
    return np.append(coded, True)[cells.codes]


def read_words(column: ColumnRecipe, table: RawTable) -> Cells:
    """The column as words, spelled as in training; what the user calls a gap is one."""
    cells = table.columns[column.name]
    if column.codes:
        coded = pc.is_in(cells.text, pa.array(column.codes, pa.string()))
        cells = Cells(pc.if_else(coded, None, cells.text))
    known = {*column.words, *column.counts}
    if not known:  # in training, and of columns that keep no words
        return cells
    plain = {plain_word(word): word for word in sorted(known)}
    words = [word if word in known else plain.get(plain_word(word), word) for word in cells.words]
    if words == cells.words:
        return cells
    return Cells(pa.array(words, pa.string()).take(pa.array(cells.codes, mask=cells.codes < 0)))


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
        codes[gaps] = place[""]
        if sites is not None and column.site_fill:
            own = np.array([place.get(site, place[""]) for site in (*sites.words, "")])
            codes[gaps] = own[sites.codes[gaps]]
    return words, codes
