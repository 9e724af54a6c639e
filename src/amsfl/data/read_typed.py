"""Files whose columns have types: Parquet, Feather, JSON lines, Excel."""

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from amsfl.core import UserError
from amsfl.data.raw_table import RawTable, from_frame
from amsfl.data.read_csv import check_header
from amsfl.data.sizes import check_size

CELL = 8  # bytes
DEEPEST = 100  # of JSON within JSON
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
OPENING, CLOSING = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)


def read_typed(path: str) -> RawTable:
    """By the file's ending. What its library says of a file that it cannot read is one sentence."""
    ending = Path(path).suffix.lower()
    try:
        frame = READERS[ending](path)
        if isinstance(frame, pa.Table):  # whose readers believe what a damaged file says of its parts
            frame.validate(full=True)
    except UserError:
        raise
    except Exception as error:  # of any kind: these parsers meet damaged files in their own ways
        what = str(error).partition("\n")[0][:200] or type(error).__name__
        raise UserError(f"{path} cannot be read as {ending[1:]}: {what}.") from None
    return frame if isinstance(frame, RawTable) else from_frame(frame, path)


def _read_parquet(path: str) -> Any:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        check_size(path, file.metadata.num_rows * file.metadata.num_columns * CELL, packed=False)
        return file.read()


def _read_feather(path: str) -> Any:
    from pyarrow import feather

    return feather.read_table(path)


def _read_json(path: str) -> Any:
    """Values nested without end are refused before: pyarrow's parser would use up the stack."""
    from pyarrow import json

    check_size(path, Path(path).stat().st_size)
    depth = 0
    with Path(path).open("rb") as file:
        while block := file.read(1 << 24) + file.readline():
            codes = np.frombuffer(STRING.sub(b"", block), np.uint8)
            change = np.isin(codes, OPENING).astype(np.int32) - np.isin(codes, CLOSING)
            levels = depth + np.cumsum(change)
            if levels.max(initial=0) > DEEPEST:
                raise UserError(f"{path} cannot be read as a table: its values are nested {DEEPEST} deep.")
            depth = int(levels[-1]) if len(levels) else depth
    return json.read_json(path)


def _read_excel(path: str) -> RawTable:
    """The first sheet, by its cells: what it says of its own dimensions is not asked. Lines are its rows."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UserError(f"{path}: Excel files need openpyxl; pip install 'amsfl[excel]'.") from None
    with zipfile.ZipFile(path) as archive:
        check_size(path, sum(part.file_size for part in archive.infolist()))
    book = load_workbook(path, read_only=True, data_only=True)
    try:
        sheet = book.worksheets[0]
        sheet.reset_dimensions()
        numbered = enumerate(sheet.iter_rows(values_only=True), 1)
        filled = {line: row for line, row in numbered if any(cell is not None for cell in row)}
    finally:
        book.close()
    rows = list(filled.values())
    if len(rows) < 2:
        raise UserError(f"{path} needs a header and rows in its first sheet.")
    width = max(map(len, rows))
    names = [str(name).strip() if name is not None else "" for name in rows[0]]
    header = check_header(path, names + [""] * (width - len(names)))
    cells = {name: [row[at] if at < len(row) else None for row in rows[1:]] for at, name in enumerate(header)}
    return from_frame(cells, path)._replace(lines=list(filled)[1:])


READERS = {
    ".parquet": _read_parquet,
    ".feather": _read_feather,
    ".arrow": _read_feather,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".xlsx": _read_excel,
}
