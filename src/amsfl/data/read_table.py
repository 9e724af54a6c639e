"""A table as it was read: files and data frames of any common kind become columns of cells."""

import csv
import gzip
import io
import itertools
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from amsfl.core import UserError
from amsfl.data.cells import DAY, MISSING, Cells, join_cells

TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zip", ".tsv.zip")
ENDINGS = (*TEXT_ENDINGS, ".parquet", ".feather", ".arrow", ".jsonl", ".ndjson", ".xlsx")
SEPARATORS = ",;\t|"
FALLBACK = "cp1252"  # what Windows wrote before UTF-8; it reads nearly anything, so it is said
LARGEST = 1 << 35  # bytes that a compressed file may hold
GAPS = sorted({form for word in MISSING for form in (word, word.upper(), word.title())} | {"NaN", "NaT"})
SITE = "site"  # the column that says which file a row came from


class DataFrame(Protocol):
    """What pandas' and polars' data frames have in common."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, key: Any, /) -> Any: ...


Frame = DataFrame | Mapping[str, Any]


class RawTable(NamedTuple):
    """Columns of cells; `lines` is where each row stands in its file."""

    name: str
    columns: dict[str, Cells]
    lines: Sequence[int]
    remarks: tuple[str, ...] = ()  # what was decided while reading
    commas: bool = False  # whether 1,234 is more likely 1.234 than 1234: commas do not separate its cells

    @property
    def rows(self) -> int:
        return len(self.lines)

    def cell(self, column: str, row: int) -> str:
        return self.columns[column].text[row].as_py() or ""


def is_table(source: str) -> bool:
    """Whether a source is a file of rows, a folder of such files or a pattern such as sites/*.csv."""
    return source.lower().endswith(ENDINGS) or bool(_site_files(source))


def read_file(path: str) -> RawTable:
    """A file by its ending; of a folder or a pattern, every file as one site."""
    files = _site_files(path)
    if files:
        return _join_sites(path, [read_file(str(file)) for file in files])
    if not Path(path).is_file():
        raise UserError(f"There is no file {path}.")
    if path.lower().endswith(TEXT_ENDINGS):
        return _read_csv(path)
    try:
        return from_frame(_read_typed(path), path)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read as {Path(path).suffix[1:]}: {error}.") from None


def _site_files(source: str) -> list[Path]:
    if Path(source).is_dir():
        files = Path(source).iterdir()
    elif "*" in source and not Path(source).exists():
        files = Path(source).parent.glob(Path(source).name)
    else:
        return []
    return sorted(file for file in files if file.name.lower().endswith(ENDINGS))


def _join_sites(name: str, tables: list[RawTable]) -> RawTable:
    first = tables[0]
    for other in tables[1:]:
        differ = set(other.columns) ^ set(first.columns)
        if differ:
            raise UserError(
                f"{first.name} and {other.name} do not have the same columns: only one of them has "
                f"{sorted(differ)[0]!r}. Every file of a federation needs the same header."
            )
    columns = {key: join_cells([each.columns[key] for each in tables]) for key in first.columns}
    if SITE not in columns:
        stems = [Path(each.name).name.partition(".")[0] for each in tables]
        codes = [stem for stem, each in zip(stems, tables, strict=True) for _ in range(each.rows)]
        columns[SITE] = Cells(pa.array(codes, pa.string()))
    lines = list(itertools.chain.from_iterable(each.lines for each in tables))
    remarks = dict.fromkeys(line for each in tables for line in each.remarks)
    return RawTable(name, columns, lines, tuple(remarks), any(each.commas for each in tables))


def _read_typed(path: str) -> Any:
    ending = Path(path).suffix.lower()
    if ending == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    if ending in (".feather", ".arrow"):
        from pyarrow import feather

        return feather.read_table(path)
    if ending in (".jsonl", ".ndjson"):
        from pyarrow import json

        return json.read_json(path)
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UserError(f"{path}: Excel files need openpyxl; pip install 'amsfl[excel]'.") from None
    book = load_workbook(path, read_only=True, data_only=True)
    rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(c is not None for c in row)]
    if len(rows) < 2:
        raise UserError(f"{path} needs a header and rows in its first sheet.")
    header = _check_header(path, [str(name or "").strip() for name in rows[0]])
    return dict(zip(header, map(list, zip(*rows[1:], strict=True)), strict=True))


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
        return Cells(pc.if_else(pc.is_nan(numbers), None, numbers), "number")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        seconds = array.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64(), safe=False)
        return Cells(pc.divide(seconds, DAY * 1e6), "date")
    if pa.types.is_duration(kind):
        days = [None if each is None else timedelta.total_seconds(each) / DAY for each in array.to_pylist()]
        return Cells(pa.array(days, pa.float64()), "number")
    if not pa.types.is_string(kind):
        as_text = [None if value is None else str(value) for value in array.to_pylist()]
        array = pa.array(as_text, pa.string())
    return Cells(_mark_gaps(array))


def _mark_gaps(array: pa.Array) -> pa.Array:
    """Trimmed, with null for the words that mean a gap everywhere."""
    array = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.is_in(pc.utf8_lower(array), pa.array(MISSING)), None, array)


def _read_csv(path: str) -> RawTable:
    content, remarks = _utf8(path)
    start = content[: content.find(b"\n", 1 << 16)] if len(content) > 1 << 16 else content
    separator, skip = _separator(path, start.decode("utf-8"))
    content = content[len(start.decode("utf-8")[:skip].encode()) :] if skip else content
    content = content.lstrip(b"\r\n")
    reader = csv.reader(
        io.StringIO(content[: 1 << 20].decode("utf-8", "ignore"), newline=""), delimiter=separator
    )
    try:
        names = next(reader, [])
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as CSV text: {error}.") from None
    if not names:
        raise UserError(f"{path} has no rows below its first line; it needs a header and data.")
    header = _check_header(path, [name.strip() for name in names])
    quoted = b'"' in content
    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=quoted)
    whole = arrow_csv.ReadOptions(
        column_names=header, skip_rows=reader.line_num, block_size=max(len(content), 1 << 16)
    )

    def read(text: Sequence[str], only: Sequence[str] | None = None) -> pa.Table:
        convert = arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in text},
            include_columns=only,
            null_values=GAPS,
            true_values=[],
            false_values=[],
            strings_can_be_null=True,
        )
        return arrow_csv.read_csv(pa.BufferReader(content), whole, parse, convert)

    try:
        table = read(())
        odd = [name for name in header if not _is_number_or_text(table[name].type)]  # dates and hours
        again = read(odd, odd) if odd else table
    except pa.ArrowException as error:
        raise _csv_error(path, content, separator, len(header), error) from None
    if not len(table):
        raise UserError(f"{path} has no rows below its first line; it needs a header and data.")
    columns = {}
    for name in header:
        column = (again if name in odd else table)[name].combine_chunks()
        text = pa.types.is_string(column.type)
        columns[name] = Cells(_mark_gaps(column)) if text else Cells(column, "text", _reader(read, name))
        if not text and columns[name].point is None:  # an infinite number
            columns[name] = Cells(_mark_gaps(read([name], [name])[name].combine_chunks()))
    lines: Sequence[int] = range(2, 2 + len(table))
    if quoted or content.rstrip().count(b"\n") != len(table):  # blank lines, or cells of several lines
        reader = csv.reader(io.StringIO(content.decode("utf-8"), newline=""), delimiter=separator)
        lines = [reader.line_num for row in reader if row][1:]
    shift = 1 if skip else 0
    lines = [line + shift for line in lines] if shift else lines
    return RawTable(path, columns, lines, remarks, commas=separator != ",")


def _reader(read: Callable[[list[str], list[str]], pa.Table], name: str) -> Callable[[], pa.Array]:
    return lambda: _mark_gaps(read([name], [name])[name].combine_chunks())


def _is_number_or_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_null)
    )


def _check_header(path: str, header: list[str]) -> list[str]:
    unnamed = header.count("")
    header = [name or f"unnamed {place}" for place, name in enumerate(header, start=1)]
    numbers = all(re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", name, re.I) for name in header)
    if numbers or unnamed == len(header) or len(set(header)) < len(header):
        raise UserError(
            f"The first line of {path} must name the columns, each differently; it reads {','.join(header)}."
        )
    return header


def _csv_error(path: str, content: bytes, separator: str, width: int, error: Exception) -> UserError:
    """The line that is too short or too long."""
    reader = csv.reader(io.StringIO(content.decode("utf-8"), newline=""), delimiter=separator)
    try:
        for row in reader:
            if row and len(row) != width:
                above = "; delete what stands above the names of the columns" if width == 1 else ""
                line = f"{path}, line {reader.line_num} has {len(row)} cells"
                return UserError(f"{line}; the header has {width}{above}.")
    except csv.Error as bad:
        error = bad
    return UserError(f"{path} cannot be read as CSV text: {error}.")


def _separator(path: str, text: str) -> tuple[str, int]:
    """What stands between cells, and how many characters to skip: the line in which Excel says so."""
    announced = re.match(r"\s*sep=(.)\r?\n", text)
    if announced:
        return announced[1], announced.end()
    first = text.lstrip().partition("\n")[0]
    return "\t" if ".tsv" in path.lower()[-8:] else max(SEPARATORS, key=first.count), 0


def _utf8(path: str) -> tuple[bytes, tuple[str, ...]]:
    """The file's text in UTF-8, and a remark where its encoding is a guess."""
    try:
        content = _uncompressed(path)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
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
        plain = encoding == "utf-8-sig"
        return content.removeprefix(b"\xef\xbb\xbf") if plain else text.encode(), () if plain else (guessed,)[
            : encoding == FALLBACK
        ]
    raise UserError(f"{path} cannot be read as CSV text; save it as UTF-8.")


def _uncompressed(path: str) -> bytes:
    if path.lower().endswith(".gz"):
        with gzip.open(path) as file:
            return _read_limited(path, file)
    if not path.lower().endswith(".zip"):
        return Path(path).read_bytes()
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith((".csv", ".tsv"))]
        if len(names) != 1:
            raise UserError(f"{path} holds {len(names)} CSV files; it should hold one.")
        with archive.open(names[0]) as file:
            return _read_limited(path, file)


def _read_limited(path: str, file: IO[bytes] | gzip.GzipFile) -> bytes:
    """All that a compressed file holds, unless that is absurdly much: whoever packed it chose its size."""
    blocks, size = [], 0
    while block := file.read(1 << 24):
        blocks.append(block)
        size += len(block)
        if size > LARGEST:
            raise UserError(f"{path} holds more than {LARGEST >> 30} GiB; unpack it and take a part.")
    return b"".join(blocks)
