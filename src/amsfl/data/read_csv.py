"""CSV text as it comes: any usual separator and encoding, packed or not; pyarrow reads the numbers."""

import codecs
import csv
import gzip
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from amsfl.core import UserError
from amsfl.data.cells import MISSING, Cells
from amsfl.data.raw_table import LazyLines, RawTable, mark_gaps
from amsfl.data.sizes import check_size
from amsfl.data.spelling import has_decimal_commas

SEPARATORS = ",;\t|"
FALLBACK = "cp1252"  # what Windows wrote before UTF-8; it reads nearly anything, so it is said
TEXT = (pa.string(), pa.null())
BLOCK = 1 << 22  # bytes that are parsed at once
CONVERSION = re.compile(r"In CSV column #(\d+): .*conversion error to (\w+)")
GAPS = sorted({form for word in MISSING for form in (word, word.upper(), word.title())} | {"NaN", "NaT"})


def read_csv(path: str) -> RawTable:
    """Columns by pyarrow, a block of the file at a time; text is kept as text where a column is no number."""
    content, remarks = _utf8(path)
    content = content if b"\n" in content else content.replace(b"\r", b"\n")  # as old Macs end lines
    start = content[: content.find(b"\n", 1 << 16)] if len(content) > 1 << 16 else content
    separator, skip = _separator(path, start.decode("utf-8"))
    content = content[len(start.decode("utf-8")[:skip].encode()) :] if skip else content
    content = content.lstrip(b"\r\n")
    reader = _reader(content[: 1 << 20], separator)
    try:
        names: list[str] = next(reader, [])
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as CSV text: {error}.") from None
    if not names:
        raise UserError(f"{path} has no rows below its first line; it needs a header and data.")
    header = check_header(path, [name.strip() for name in names])
    quoted = b'"' in content
    source = CsvSource(content, separator, header, reader.line_num, quoted)
    try:
        arrays = source.read_typed()
    except pa.ArrowException as error:
        raise _csv_error(path, content, separator, len(header), error) from None
    rows = len(arrays[header[0]])
    if not rows:
        raise UserError(f"{path} has no rows below its first line; it needs a header and data.")
    columns = {name: _cells(source, name, arrays.pop(name)) for name in header}
    first, tail = 2 + bool(skip), content[-(1 << 16) :]
    lines: Sequence[int] = range(first, first + rows)
    if content.count(b"\n", 0, len(content) - len(tail) + len(tail.rstrip())) != rows:
        lines = LazyLines(rows, partial(_count_lines, source, first))  # blank lines, cells of several lines
    commas = separator != ","
    return RawTable(path, columns, lines, remarks, commas, commas and has_decimal_commas(columns.values()))


def _reader(content: bytes, separator: str) -> Any:
    """Python's own, which counts lines; the last letter of a part of a file may be cut."""
    return csv.reader(io.StringIO(content.decode("utf-8", "ignore"), newline=""), delimiter=separator)


def _count_lines(source: "CsvSource", first: int) -> list[int]:
    """Where each row ends, as an editor counts."""
    reader = _reader(source.content, source.separator)
    return [reader.line_num + first - 2 for row in reader if row][1:]


class CsvSource(NamedTuple):
    """A file's text and how it is laid out: columns can be read from it again, as another type."""

    content: bytes
    separator: str
    header: list[str]
    skip: int  # lines
    quoted: bool

    def open(self, types: Mapping[str, pa.DataType], only: Sequence[str] | None = None) -> Any:
        """A reader of its columns, block by block: those of `types` as such, others by the first block."""
        options = arrow_csv.ReadOptions(column_names=self.header, skip_rows=self.skip, block_size=BLOCK)
        parse = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=self.quoted)
        convert = arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=only,
            null_values=GAPS,
            true_values=[],
            false_values=[],
            strings_can_be_null=True,
        )
        return arrow_csv.open_csv(pa.BufferReader(self.content), options, parse, convert)

    def read_typed(self) -> dict[str, pa.Array]:
        """Columns of numbers, and of text for all else: dates and hours are read from it later.

        A column that is whole numbers, or empty, in the first block may be something else further down.
        """
        types: dict[str, pa.DataType] = {}
        while True:
            with self.open(types) as reader:
                odd = [field.name for field in reader.schema if not _is_number(field.type, *TEXT)]
                types |= dict.fromkeys(odd, pa.string())
                try:
                    if not odd:
                        return _join_blocks(reader, 1 + self.content.count(b"\n"))
                except pa.ArrowInvalid as error:
                    bad = CONVERSION.search(str(error))
                    name = self.header[int(bad[1])] if bad else ""
                    if not bad or types.get(name) == pa.string():
                        raise
                    types[name] = pa.float64() if bad[2] == "int64" else pa.string()

    def read_text(self, name: str) -> pa.Array:
        with self.open({name: pa.string()}, [name]) as reader:
            return mark_gaps(reader.read_all()[name].combine_chunks())


def _join_blocks(reader: Any, most: int) -> dict[str, pa.Array]:
    """All blocks of every column. Numbers go to where they stay, so that they never lie in memory twice."""
    schema, rows = reader.schema, 0
    numbers = {field.name: np.empty(most) for field in schema if _is_number(field.type)}
    texts: dict[str, list[pa.Array]] = {field.name: [] for field in schema if field.name not in numbers}
    for block in reader:
        for name, column in zip(schema.names, block.columns, strict=True):
            if name in numbers:
                values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
                numbers[name][rows : rows + len(values)] = values
            else:
                texts[name].append(column.cast(pa.string()))
        rows += block.num_rows
    joined = {name: pa.array(values[:rows], from_pandas=True) for name, values in numbers.items()}
    for name, parts in texts.items():
        joined[name] = pa.chunked_array(parts, pa.string()).combine_chunks()
    return joined


def _cells(source: CsvSource, name: str, column: pa.Array) -> Cells:
    if pa.types.is_string(column.type):
        return Cells(mark_gaps(column))
    cells = Cells(column, "text", partial(source.read_text, name))
    return cells if cells.point is not None else Cells(source.read_text(name))  # an infinite number


def _is_number(kind: pa.DataType, *others: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind in others)


def check_header(path: str, header: list[str]) -> list[str]:
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
    reader = _reader(content, separator)
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
    first = re.sub('"[^"]*"', "", text.lstrip()).partition("\n")[0]  # names may hold commas
    return "\t" if ".tsv" in path.lower()[-8:] else max(SEPARATORS, key=first.count), 0


def _utf8(path: str) -> tuple[bytes, tuple[str, ...]]:
    """The file's text in UTF-8, and a remark where its encoding is a guess."""
    try:
        content = _uncompressed(path)
    except UserError:
        raise
    except Exception as error:  # of any kind: archives are damaged, encrypted and packed in many ways
        raise UserError(f"{path} cannot be read as CSV text: {error}.") from error
    encodings = ["utf-16"] if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8", FALLBACK]
    encoding = next((each for each in encodings if _decodes(content, each)), "")
    if encoding == "utf-8" and b"\0" not in content:
        return content.removeprefix(b"\xef\xbb\xbf"), ()
    text = content.decode(encoding) if encoding else "\0"
    if "\0" in text:
        raise UserError(f"{path} cannot be read as CSV text; save it as UTF-8.")
    guessed = f"The file is not UTF-8 and was read as Windows text ({FALLBACK}): look at its umlauts."
    return text.encode(), (guessed,) if encoding == FALLBACK else ()


def _decodes(content: bytes, encoding: str) -> bool:
    """Whether the text is in that encoding; block by block, without a second copy of it."""
    decoder, view = codecs.getincrementaldecoder(encoding)(), memoryview(content)
    try:
        for start in range(0, len(content), BLOCK):
            decoder.decode(view[start : start + BLOCK], start + BLOCK >= len(content))
    except UnicodeDecodeError:
        return False
    return True


def _uncompressed(path: str) -> bytes:
    if path.lower().endswith(".gz"):
        with gzip.open(path) as file:
            return _read_limited(path, file)
    if not path.lower().endswith(".zip"):
        check_size(path, Path(path).stat().st_size)
        return Path(path).read_bytes()
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith((".csv", ".tsv"))]
        if len(names) != 1:
            raise UserError(f"{path} holds {len(names)} CSV files; it should hold one.")
        with archive.open(names[0]) as file:
            return _read_limited(path, file)


def _read_limited(path: str, file: IO[bytes] | gzip.GzipFile) -> bytes:
    """All that a compressed file holds, unless that is absurdly much."""
    content = bytearray()
    while block := file.read(1 << 24):
        content += block
        check_size(path, len(content))
    return bytes(content)
