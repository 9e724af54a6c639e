"""Tables as people have them: CSV in any separator and common encoding, TSV, parquet, data frames."""

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from amsfl.core import UserError

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?"}
SEPARATORS = ",;\t|"
FALLBACK = "cp1252"  # what Windows wrote before UTF-8; it reads nearly anything, so it is said


class Columns(Protocol):
    """What pandas' and polars' data frames have in common."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, key: Any, /) -> Any: ...


Frame = Columns | Mapping[str, Any]


class RawTable(NamedTuple):
    """A table as text, column by column; a gap is ''. `lines` is where each row stands in its file."""

    name: str
    columns: dict[str, list[str]]
    lines: Sequence[int]
    remarks: tuple[str, ...] = ()  # what was decided while reading
    units: tuple[tuple[str, str], ...] = ()  # column -> the unit that was taken off all its numbers
    commas: bool = False  # whether 1,234 is more likely 1.234 than 1234: commas do not separate its cells


def is_table(source: str) -> bool:
    return source.lower().endswith(ENDINGS)


def read_file(path: str) -> RawTable:
    """A file by its ending."""
    if not Path(path).is_file():
        raise UserError(f"There is no file {path}.")
    return _parquet(path) if path.lower().endswith(".parquet") else _csv(path)


def from_frame(frame: Any, name: str = "table") -> RawTable:
    """A pandas or polars DataFrame, a dict of columns, or rows as dicts; one row's values may stand alone."""
    if isinstance(frame, list) and all(isinstance(row, Mapping) for row in frame):
        frame = {key: [row.get(key) for row in frame] for row in frame for key in row}
    try:
        keys = _keys(frame)
        twice = [str(key) for place, key in enumerate(keys) if str(key) in map(str, keys[:place])]
        if twice:
            raise UserError(f"The table {name!r} has two columns {twice[0]!r}; name each differently.")
        columns = {str(key): [_cell(value) for value in _several(frame[key])] for key in keys}
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"A table is a file, a pandas or polars DataFrame or a dict of columns ({error})."
        ) from None
    sizes = {len(cells) for cells in columns.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise UserError(f"The table {name!r} needs rows, and as many in every column.")
    return RawTable(name, columns, range(1, 1 + sizes.pop()))


def _several(values: Any) -> Iterable[Any]:
    return values if isinstance(values, Iterable) and not isinstance(values, str | bytes) else [values]


def _keys(frame: Any) -> list[Any]:
    return list(frame.columns if hasattr(frame, "columns") else frame.keys())


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, (datetime, date)):
        return "" if value != value else value.isoformat()  # pandas' NaT is not itself
    if isinstance(value, timedelta):
        return repr(value.total_seconds() / 86_400)  # days, as dates have them
    return _whole(str(value))


def _whole(cell: str) -> str:
    cell = cell.strip()
    return "" if cell.lower() in MISSING else cell


def _parquet(path: str) -> RawTable:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UserError(f"{path}: parquet needs pyarrow; pip install 'amsfl[tables]'.") from None
    try:
        columns = parquet.read_table(path).to_pydict()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as parquet: {error}.") from None
    return from_frame(columns, path)


def _csv(path: str) -> RawTable:
    text, remarks = _text(path)
    try:
        separator, text = _separator(path, text)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as CSV text: {error}.") from error
    if not rows:
        raise UserError(f"{path} has no rows below its first line; it needs a header and data.")
    unnamed = header.count("")
    header = [name or f"unnamed {place}" for place, name in enumerate(header, start=1)]
    if all(_is_number(name) for name in header) or unnamed == len(header) or len(set(header)) < len(header):
        raise UserError(
            f"The first line of {path} must name the columns, each differently; it reads {','.join(header)}."
        )
    for line, row in rows:
        if len(row) != len(header):
            above = "; delete what stands above the names of the columns" if len(header) == 1 else ""
            raise UserError(f"{path}, line {line} has {len(row)} cells; the header has {len(header)}{above}.")
    cells = zip(*(row for _, row in rows), strict=True)
    columns = {name: [_whole(cell) for cell in column] for name, column in zip(header, cells, strict=True)}
    return RawTable(path, columns, [line for line, _ in rows], remarks, commas=separator != ",")


def _separator(path: str, text: str) -> tuple[str, str]:
    """What stands between cells, and the text without the line in which Excel says so."""
    told = re.match(r"\s*sep=(.)\r?\n", text)
    if told:
        return told[1], text[told.end() :]
    return "\t" if ".tsv" in path.lower()[-7:] else max(SEPARATORS, key=_first(text).count), text


def _text(path: str) -> tuple[str, tuple[str, ...]]:
    """The file's text, and a remark where its encoding is a guess."""
    try:
        content = Path(path).read_bytes()
        content = gzip.decompress(content) if path.lower().endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read as CSV text: {error}.") from error
    encodings = ["utf-16"] if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8-sig", FALLBACK]
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        guessed = f"The file is not UTF-8 and was read as Windows text ({FALLBACK}): look at its umlauts."
        return text, (guessed,) if encoding == FALLBACK else ()
    raise UserError(f"{path} cannot be read as CSV text; save it as UTF-8.")


def _first(text: str) -> str:
    return text.lstrip().partition("\n")[0]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
