"""A table by its path, or in memory, as columns of numbers, dates and words; pandas reads.

Every file is read by its own marks: one site may write 0,5 and another 0.5.
"""

import codecs
import csv
import gzip
import io
import json
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from amsfl.core import UserError, listed, need
from amsfl.data.cells import place, read_cells, spell
from amsfl.data.files import TEXT_ENDINGS, check_file, name_files, site_files, source_name
from amsfl.data.recipe import Recipe

CLIENTS = ("client", "site", "hospital")  # usual names of the column that says whose row it is
SITE = "site"  # the column that says which file a row came from
SEPARATORS = ",;\t|"
EMPTY = ["", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "?"]
DECIMAL = r"[+-]?(\d+(\.\d{3})*,(\d{1,2}|\d{4,})|0,\d+)"  # 1,5: a comma that cannot stand between thousands
START = 1 << 20  # characters of a file by which its decimal commas are known


class RawTable(NamedTuple):
    """Columns of numbers (float64), dates (float64, in days) and words (objects); the index says where a row
    stands in its file."""

    name: str
    frame: pd.DataFrame
    dates: frozenset[str] = frozenset()
    forms: Mapping[str, str] = {}
    remarks: tuple[str, ...] = ()  # what was decided while reading
    comma: bool = False  # whether it has decimal commas beyond doubt
    site: str = ""  # of several files: the column that says which one a row came from

    def place(self, row: int) -> str:
        """Where a row stands: `Line 5`."""
        return place(self.frame.index, row)

    def kind(self, column: str) -> str:
        """number, date or text"""
        is_text = self.frame[column].dtype.kind != "f"
        return "text" if is_text else "date" if column in self.dates else "number"


Asked = Callable[[Sequence[str]], Mapping[str, str]]  # how some of these columns are to be read


def read_rows(source: Any, recipe: Recipe) -> RawTable:
    """Rows are read as the training rows were; further columns stay words."""
    numeric = {column.name for column in recipe.columns if column.numeric}
    forms = {column.name: column.form for column in recipe.columns}
    return read_table(source, lambda names: dict.fromkeys({*names} - numeric, "words"), forms, recipe.missing)


def read_table(
    source: Any,
    asked: Asked = lambda names: {},
    forms: Mapping[str, str] = {},
    missing: Sequence[str] = (),
) -> RawTable:
    """A file by its ending, several as one site each, a data frame, or a dict of columns."""
    if isinstance(source, RawTable):
        return source

    def typed(name: str, frame: pd.DataFrame, comma: bool = False, remarks: Sequence[str] = ()) -> RawTable:
        """Every column as what it holds."""
        how = asked(list(frame))
        columns, dates, found, said = {}, set(), {}, list(remarks)
        for column, cells in frame.items():
            if how.get(column) == "words":
                columns[column] = spell(cells, missing)
            elif how.get(column) == "drop":
                columns[column] = np.full(len(cells), None, object)
            else:
                kind, columns[column], found[column], more = read_cells(
                    cells, how.get(column, ""), forms.get(column, ""), comma, missing
                )
                dates |= {column} if kind == "date" else set()
                said += more
        if not len(frame):
            raise UserError(f"{name} has no rows below the names of its columns.")
        made = pd.DataFrame(columns, index=frame.index)
        return RawTable(name, made, frozenset(dates), found, tuple(said), comma)

    def read_file(path: str) -> RawTable:
        if path.lower().endswith(TEXT_ENDINGS):
            return typed(path, *_read_csv(path, asked))
        ending = Path(path).suffix.lower()
        try:
            return typed(path, _in_memory(READERS[ending](path)))
        except (UserError, MemoryError):
            raise
        except Exception as error:  # of any kind: these parsers meet damaged files in their own ways
            what = str(error).partition("\n")[0][:200].rstrip(".") or type(error).__name__
            raise UserError(f"{path} cannot be read as {ending[1:]}: {what}.") from None

    if not isinstance(source, str | Path):
        return typed("the table", _in_memory(source))
    files = site_files(str(source))
    if not files:
        check_file(str(source))
        return read_file(str(source))
    return _join(source_name(str(source)), files, [read_file(str(file)) for file in files])


def _in_memory(rows: Any) -> pd.DataFrame:
    """A pandas or polars data frame, a dict of columns or of cells, or a list of these, as a data frame."""
    try:
        if not isinstance(rows, pd.DataFrame):
            if isinstance(rows, list) and isinstance(rows[0], Mapping):
                rows = dict(pd.DataFrame(rows))
            elif not isinstance(rows, Mapping):
                rows = {key: list(rows[key]) for key in rows.columns}
            one = not any(map(pd.api.types.is_list_like, rows.values()))
            rows = pd.DataFrame([rows] if one else rows)
            rows.index = pd.RangeIndex(1, 1 + len(rows))
        frame = rows.set_axis(named(map(str, rows.columns), "The table"), axis=1)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"A table is a file, a pandas or polars DataFrame or a dict of columns of one length ({error})."
        ) from None
    if frame.index.name != "row":
        frame = frame.set_axis(pd.RangeIndex(1, 1 + len(frame), name="row"), axis=0)
    return frame


def named(names: Iterable[str], where: str) -> list[str]:
    """Names of columns, each different; those without one are numbered."""
    header = [name.strip() or f"unnamed {place}" for place, name in enumerate(names, start=1)]
    twice = [name for place, name in enumerate(header) if name in header[:place]]
    if twice:
        raise UserError(f"{where} has two columns {twice[0]!r}; name each differently.")
    return header


def _read_csv(path: str, asked: Asked) -> tuple[pd.DataFrame, bool, Sequence[str]]:
    """The frame with lines as its index, whether it has decimal commas, and remarks."""
    content = _unpacked(path).removeprefix(codecs.BOM_UTF8)
    encoding, remarks = _encoding(path, content)
    text = content.decode(encoding)
    if "\n" not in text:  # as old Macs end lines
        content, text = content.replace(b"\r", b"\n"), text.replace("\r", "\n")
    announced = re.match(r"\s*sep=(.)\r?\n", text)  # by Excel
    first = re.sub('"[^"]*"', "", text.lstrip()).partition("\n")[0] if not announced else ""
    separator = announced[1] if announced else max(SEPARATORS, key=first.count)
    lines = csv.reader(io.StringIO(text[:START], newline=""), delimiter=separator)
    try:
        head = next((row for row in lines if any(row) and not row[0].lower().startswith("sep=")), [])
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as CSV text: {error}.") from None
    if not head or text.count("\n", 0, len(text) - 1) < lines.line_num:
        raise UserError(f"{path} has no rows below its first line; it needs a header and data.")
    numbers = [name for name in head if re.fullmatch(r"\s*[+-]?[\d.]+(e[+-]?\d+)?\s*", name, re.I)]
    if len(numbers) == len(head) or not any(head) or any("." in name.strip("0.") for name in numbers):
        raise UserError(f"The first line of {path} must name the columns; it reads {listed(head, 12)}.")
    header = named(head, f"The first line of {path}")
    cell = rf'(^|{re.escape(separator)})"?{DECIMAL}"?\s*($|{re.escape(separator)})'
    comma = separator != "," and re.search(cell, text[:START], re.M) is not None
    how = {
        "sep": separator, "encoding": encoding, "decimal": "," if comma else ".", "header": None,
        "names": header, "skiprows": lines.line_num, "index_col": False, "low_memory": False,
        "skipinitialspace": True, "keep_default_na": False, "na_values": EMPTY,
        "dtype": {name: str for name, how in asked(header).items() if how == "words"},
    }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(io.BytesIO(content), **how)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise _csv_error(path, header, lines.line_num, error) from None
    filled = [number for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    filled = [number for number in filled if number > lines.line_num]
    if len(filled) == len(frame):
        frame.index = pd.Index(filled, name="line")
    else:  # there are cells of several lines
        frame.index = pd.RangeIndex(1, 1 + len(frame), name="row")
    if comma:
        remarks = [*remarks, "Numbers with commas are read with decimal commas: 1,5 is one and a half."]
    return frame, comma, remarks


def _csv_error(path: str, header: Sequence[str], above: int, error: Exception) -> UserError:
    longer = re.search(r"Expected \d+ fields in line (\d+), saw (\d+)", str(error))
    if isinstance(error, pd.errors.ParserWarning) or longer:
        line, cells = (int(longer[1]), f"{longer[2]} cells") if longer else (above + 1, "more cells")
        hint = "; delete what stands above the names of the columns" if len(header) == 1 else ""
        return UserError(f"{path}, line {line} has {cells}; the header has {len(header)}{hint}.")
    what = str(error).partition("\n")[0].rstrip(".")
    return UserError(f"{path} cannot be read as CSV text: {what}.")


def _unpacked(path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
        return gzip.decompress(content) if path.lower().endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read as CSV text: {error}.") from error


def _encoding(path: str, content: bytes) -> tuple[str, list[str]]:
    """Of the file, and a remark where it is a guess."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", []
    guess = "The file is not UTF-8 and was read as Windows text (cp1252): look at its umlauts."
    for encoding, remarks in (("utf-8", []), ("cp1252", [guess])):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if b"\0" not in content:
            return encoding, remarks
    raise UserError(f"{path} cannot be read as CSV text; save it as UTF-8.")


def _read_excel(path: str) -> pd.DataFrame:
    """The first sheet; its own rows are the index."""
    need("openpyxl", f"Reading {path}")
    sheet = pd.read_excel(path, header=None, dtype=object, keep_default_na=False)
    sheet.index = pd.RangeIndex(1, 1 + len(sheet), name="row")
    filled = sheet[(sheet != "").any(axis=1)]
    return filled if filled.empty else filled.iloc[1:].set_axis(map(str, filled.iloc[0]), axis=1)


def _read_json_lines(path: str) -> pd.DataFrame:
    """By json: pandas' own reader turns words into dates, or warns that it will not be asked."""
    with Path(path).open(encoding="utf-8-sig") as file:
        return pd.DataFrame([json.loads(line) for line in file if line.strip()])


def _read_parquet(path: str) -> pd.DataFrame:
    need("pyarrow", f"Reading {path}")
    return pd.read_parquet(path)


READERS = {".parquet": _read_parquet, ".jsonl": _read_json_lines, ".xlsx": _read_excel}


def _join(name: str, files: list[Path], tables: list[RawTable]) -> RawTable:
    """One table of all files, with a column that says which one a row came from."""
    first = tables[0]
    for other in tables[1:]:
        differ = sorted({*other.frame} ^ {*first.frame})
        if differ:
            raise UserError(
                f"{first.name} and {other.name} do not have the same columns: only one of them has "
                f"{differ[0]!r}. Every file of a federation needs the same header."
            )
    frames = [table.frame.copy(deep=False) for table in tables]
    dates: set[str] = set()
    for column in first.frame:
        kinds = {table.kind(column) for table in tables if table.frame[column].notna().any()}
        dates |= {column} if kinds == {"date"} else set()
        for frame in frames:
            if len(kinds) > 1:  # numbers here, words there
                frame[column] = spell(frame[column])
            elif frame[column].isna().all():  # which has no kind
                frame[column] = None if kinds == {"text"} else np.nan
    names = name_files(files)
    joined = pd.concat(frames, keys=names, names=["file", frames[0].index.name])
    forms = {column: max(table.forms.get(column, "") for table in tables) for column in first.frame}
    remarks = list(dict.fromkeys(line for table in tables for line in table.remarks))
    site, more = _owners(joined, frames)
    if site not in joined:
        joined[site] = np.repeat(np.array(names, object), [len(frame) for frame in frames])
    comma = all(table.comma for table in tables)
    return RawTable(name, joined, frozenset(dates), forms, (*remarks, *more), comma, site)


def _owners(joined: pd.DataFrame, frames: list[pd.DataFrame]) -> tuple[str, list[str]]:
    """The column that says which file a row came from; one that the files have may say the same."""
    usual = [name for name in joined if name.lower() in CLIENTS]
    for name in usual:
        words = [frame[name].dropna().unique() for frame in frames]
        if all(len(own) == 1 for own in words) and len({own[0] for own in words}) == len(frames):
            return name, []
    site = SITE
    while site in joined:
        site += " file"
    remarks = (
        [f"Every file is a client; --client-column {usual[0]} goes by that column instead."] if usual else []
    )
    return site, remarks
