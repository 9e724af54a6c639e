"""Files of one federation that write numbers or dates differently: each is read by its own spelling."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.data.cells import Cells, Floats, join_cells
from amsfl.data.raw_table import RawTable
from amsfl.data.recipe import NUMERIC
from amsfl.data.spelling import are_ranges, date_parsers, find_unit, is_mark, number_parsers, reads_all

NONE = np.zeros(0)


class OwnReading(NamedTuple):
    """A column of one file as that file alone would be read."""

    read: str  # number, date, or words
    spelling: str = ""
    unit: str = ""
    values: Floats = NONE  # of its distinct words


def join_column(name: str, tables: list[RawTable]) -> tuple[Cells, list[str]]:
    """The column of all files, and a remark where they were read each by its own spelling."""
    parts = [table.columns[name] for table in tables]
    if any(part.kind != "text" for part in parts) or _are_points(name, tables):
        return join_cells(parts), []
    if _are_flags(parts):
        return join_cells([Cells(pc.utf8_lower(part.text)) for part in parts]), []
    readings = [_read_alone(table, name) for table in tables]
    first, marks = readings[0], {table.decimal_commas for table in tables}
    if len({each.read for each in readings}) > 1 or first.read not in NUMERIC:
        return join_cells(parts), []
    units = {each.unit for each in readings if each.values.size}
    if len(units - {""}) > 1 or ("%" in units and len(units) > 1):
        return join_cells(parts), []
    if len(marks) == 1 and _have_common_spelling(parts, readings):
        return join_cells(parts), []
    typed = [_typed(part, each) for part, each in zip(parts, readings, strict=True)]
    by_spelling = {
        (each.spelling, each.unit): table.name
        for table, each in zip(tables, readings, strict=True)
        if each.values.size
    }
    files = " and ".join([*by_spelling.values()][:2])
    remark = f"{name!r} is written differently in {files}: each by its own spelling."
    return join_cells(typed), [remark] if len(by_spelling) > 1 else []


def _are_points(name: str, tables: list[RawTable]) -> bool:
    """Whether every file has plain numbers there, which is usual and needs no second look."""
    return all(table.columns[name].point is not None and not table.groups_by_points(name) for table in tables)


def _are_flags(parts: list[Cells]) -> bool:
    """Whether files have true and false in different cases: TRUE here, True there."""
    spellings = {word for part in parts for word in part.words}
    lower = {word.lower() for word in spellings}
    return lower <= {"true", "false"} and len(lower) < len(spellings)


def _read_alone(table: RawTable, name: str) -> OwnReading:
    cells = table.columns[name]
    words = cells.vocabulary
    used = words.filter(pa.array(~is_mark(words)))
    unit = find_unit(used)
    numbers = number_parsers(table.commas, unit, table.groups_by_points(name))
    readers = {"number": {} if are_ranges(used) else numbers, "date": date_parsers()}
    for read, parsers in readers.items():
        for spelling, parse in parsers.items():
            if reads_all(parse, used):
                return OwnReading(read, spelling, unit if read == "number" else "", parse(words))
    return OwnReading("words")


def _have_common_spelling(parts: list[Cells], readings: list[OwnReading]) -> bool:
    """Whether one of the files' spellings reads all of them as they read themselves."""
    first = readings[0]
    unit = max(each.unit for each in readings)  # '' where there is none
    parsers = number_parsers(False, unit) if first.read == "number" else date_parsers()
    for spelling in {each.spelling for each in readings}:
        pairs = zip(parts, readings, strict=True)
        if all(
            np.array_equal(parsers[spelling](part.vocabulary), own.values, equal_nan=True)
            for part, own in pairs
        ):
            return True
    return False


def _typed(cells: Cells, own: OwnReading) -> Cells:
    return Cells(pa.array(np.append(own.values, np.nan)[cells.codes], from_pandas=True), own.read)
