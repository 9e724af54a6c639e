"""A table before anything is decided about it: columns of cells, from a data frame or a file's reader."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.core import UserError
from amsfl.data.cells import MISSING, Cells, Mask
from amsfl.data.dates import DATES, DAY
from amsfl.data.recipe import ColumnRecipe
from amsfl.data.spelling import find_unit, may_group_thousands

EXACT = 2.0**53  # from here on float64 does not hold every whole number


class DataFrame(Protocol):
    """What pandas' and polars' data frames have in common."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, key: Any, /) -> Any: ...


Frame = DataFrame | Mapping[str, Any]


class LazyLines(Sequence[int]):
    """Numbers of lines, which only a message needs: counted when one is asked for."""

    def __init__(self, count: int, read: Callable[[], Sequence[int]]):
        self.rows, self.read = count, read

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: Any) -> Any:
        return self.numbers[row]

    @cached_property
    def numbers(self) -> Sequence[int]:
        return self.read()


class RawTable(NamedTuple):
    """Columns of cells; `lines` is where each row stands in its file."""

    name: str
    columns: dict[str, Cells]
    lines: Sequence[int]
    remarks: tuple[str, ...] = ()  # what was decided while reading
    commas: bool = False  # whether 1,234 is more likely 1.234 than 1234: commas do not separate its cells
    decimal_commas: bool = False  # whether some column is numbers with decimal commas beyond doubt
    client: str = ""  # of several files: the column that says which one a row came from

    @property
    def rows(self) -> int:
        return len(self.lines)

    def filter(self, mask: Mask) -> "RawTable":
        """Some of the rows."""
        lines, rows = self.lines, np.flatnonzero(mask)
        kept = LazyLines(len(rows), lambda: [lines[row] for row in rows.tolist()])
        columns = {name: cells.filter(mask) for name, cells in self.columns.items()}
        return self._replace(columns=columns, lines=kept)

    def groups_by_points(self, column: str) -> bool:
        """Whether 1.200 in this column is twelve hundred: a file has one kind of decimal mark."""
        return self.decimal_commas and may_group_thousands(self.columns[column].vocabulary)

    def spellings(self, column: ColumnRecipe, words: pa.Array) -> list[ColumnRecipe]:
        """How these words of the column may be written, the likelier first.

        Where commas do not separate cells, they are decimal ones.
        """
        if column.read == "date":
            return [column._replace(spelling=spelling) for spelling in DATES]
        order = ("point", "comma", "grouped") if self.commas else ("point", "grouped", "comma")
        order = ("comma", "point", "grouped") if self.groups_by_points(column.name) else order
        unit = find_unit(words)
        return [column._replace(spelling=spelling, unit=unit) for spelling in order]

    def cell(self, column: str, row: int) -> str:
        return self.columns[column].text[row].as_py() or ""


def from_frame(frame: Any, name: str = "table") -> RawTable:
    """A pandas or polars DataFrame, a dict of columns, or rows as dicts; one row's values may stand alone."""
    if isinstance(frame, list) and all(isinstance(row, Mapping) for row in frame):
        frame = {key: [row.get(key) for row in frame] for row in frame for key in row}
    try:
        if isinstance(frame, pa.Table):
            keys: list[Any] = frame.column_names
        else:
            keys = list(frame.columns if hasattr(frame, "columns") else frame.keys())
        twice = [str(key) for place, key in enumerate(keys) if str(key) in map(str, keys[:place])]
        if twice:
            raise UserError(f"The table {name!r} has two columns {twice[0]!r}; name each differently.")
        columns = {str(key): from_values(frame[key]) for key in keys}
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"A table is a file, a pandas or polars DataFrame or a dict of columns ({error})."
        ) from None
    sizes = {len(cells) for cells in columns.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise UserError(f"The table {name!r} needs rows, and as many in every column.")
    return RawTable(name, columns, range(1, 1 + sizes.pop()))


def from_values(values: Any) -> Cells:
    """A column that is already in memory: numbers, booleans and dates keep their type."""
    if hasattr(values, "to_arrow"):  # polars
        values = values.to_arrow()
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            values = [values]
        try:
            values = pa.array(values if hasattr(values, "dtype") else list(values), from_pandas=True)
        except (pa.ArrowException, OverflowError):  # of several types: then as text
            values = pa.array([None if value is None else str(value) for value in values], pa.string())
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_boolean(kind):
        return Cells(array.cast(pa.float64()), "flag")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = array.cast(pa.float64(), safe=False)
        numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
        large = pc.any(pc.greater_equal(pc.abs(numbers), EXACT)).as_py()
        if large and not pa.types.is_floating(kind):  # float64 would give two identifiers one text
            return Cells(numbers, "number", lambda: array.cast(pa.string()))
        return Cells(numbers, "number", lambda: _format_numbers(numbers))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        seconds = array.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64(), safe=False)
        return Cells(pc.divide(seconds, DAY * 1e6), "date")
    if pa.types.is_duration(kind):
        days = [None if each is None else timedelta.total_seconds(each) / DAY for each in array.to_pylist()]
        return Cells(pa.array(days, pa.float64()), "number")
    if not pa.types.is_string(kind):
        as_text = [None if value is None else str(value) for value in array.to_pylist()]
        array = pa.array(as_text, pa.string())
    return Cells(mark_gaps(array))


def _format_numbers(numbers: pa.Array) -> pa.Array:
    """Numbers as a CSV file has them: whole ones without a point or an exponent."""
    whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), EXACT))
    digits = pc.if_else(whole, numbers, None).cast(pa.int64()).cast(pa.string())
    return pc.coalesce(digits, numbers.cast(pa.string()))


def mark_gaps(array: pa.Array) -> pa.Array:
    """Trimmed, with null for the words that mean a gap everywhere."""
    array = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.is_in(pc.utf8_lower(array), pa.array(MISSING)), None, array)
