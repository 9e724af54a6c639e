"""New rows, however they come."""

from pathlib import Path
from typing import Any

from amsfl.core import UserError
from amsfl.data.raw_table import RawTable, from_frame
from amsfl.data.read_table import ENDINGS, is_table, read_file


def open_rows(rows: Any) -> RawTable:
    """A table of new rows: a file, a data frame, a dict of columns, or one that is read already."""
    if isinstance(rows, RawTable):
        return rows
    if not isinstance(rows, str | Path):
        return from_frame(rows, "the table of new rows")
    if Path(rows).is_file() and not is_table(str(rows)):
        raise UserError(f"{rows} is no table by its name, which must end in {', '.join(ENDINGS)}.")
    return read_file(str(rows))
