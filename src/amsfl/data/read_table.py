"""A table by its path: a file of any common kind, or several files, one a site.

Files of one federation may write numbers or dates differently: each is read by its own spelling.
"""

import itertools
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.core import UserError
from amsfl.data.cells import Cells, Floats, Written, join_cells
from amsfl.data.column_types import describe_reading
from amsfl.data.raw_table import LazyLines, RawTable, from_frame
from amsfl.data.read_csv import read_csv
from amsfl.data.read_typed import READERS, read_typed
from amsfl.data.recipe import NUMERIC, ColumnRecipe
from amsfl.data.spelling import are_ranges, is_mark, parse, reads_all

TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zip", ".tsv.zip")
ENDINGS = (*TEXT_ENDINGS, *READERS)
CLIENTS = ("client", "site", "hospital")  # usual names of the column that says whose row it is
SITE = "site"  # the column that says which file a row came from


def is_table(source: str) -> bool:
    """Whether a source is a file of rows, or several: a folder, a pattern (sites/*.csv) or a.csv,b.csv."""
    return source.lower().endswith(ENDINGS) or bool(site_files(source))


def open_rows(rows: Any) -> RawTable:
    """A table of new rows: a file, a data frame, a dict of columns, or one that is read already."""
    if isinstance(rows, RawTable):
        return rows
    if not isinstance(rows, str | Path):
        return from_frame(rows, "the table of new rows")
    if Path(rows).is_file() and not is_table(str(rows)):
        raise UserError(f"{rows} is no table by its name, which must end in {', '.join(ENDINGS)}.")
    return read_file(str(rows))


def read_file(path: str) -> RawTable:
    """A file by its ending; of several, every file as one site."""
    files = site_files(path)
    if files:
        tables = [read_file(str(file)) for file in files]
        return _with_owners(_join_sites(source_name(path), tables), tables)
    if Path(path).is_dir():
        raise UserError(f"Folder {path} has no tables, whose names end in {', '.join(ENDINGS)}.")
    if not Path(path).is_file():
        raise UserError(f"There is no file {path}{_similar(Path(path))}.")
    return read_csv(path) if path.lower().endswith(TEXT_ENDINGS) else read_typed(path)


def _similar(path: Path) -> str:
    """` (did you mean 'visits.csv'?)` where the folder has a file of nearly that name."""
    names = list[str]()
    with suppress(OSError):
        names = [each.name for each in path.parent.iterdir()]
    close = get_close_matches(path.name, names, n=1, cutoff=0.8)
    return f" (did you mean {close[0]!r}?)" if close else ""


def site_files(source: str) -> list[Path]:
    """The files that a source means, if it means several."""

    def has_rows(file: Path) -> bool:
        return file.name.lower().endswith(ENDINGS)

    if Path(source).is_dir():
        files = list(Path(source).iterdir())
    elif Path(source).exists():
        return []
    elif "*" in source:
        files = list(Path(source).parent.glob(Path(source).name))
    else:
        files = [Path(part) for part in source.split(",")]
        return files if len(files) > 1 and all(has_rows(file) for file in files) else []
    return sorted(filter(has_rows, files))


def source_name(source: str) -> str:
    """A short name of a source: its file's without ending; of several files their folder's."""
    files = site_files(source)
    if not files or Path(source).is_dir():
        return Path(source).resolve().name if files else Path(source).stem
    return files[0].resolve().parent.name


def _join_sites(name: str, tables: list[RawTable]) -> RawTable:
    first = tables[0]
    for other in tables[1:]:
        differ = set(other.columns) ^ set(first.columns)
        if differ:
            raise UserError(
                f"{first.name} and {other.name} do not have the same columns: only one of them has "
                f"{sorted(differ)[0]!r}. Every file of a federation needs the same header."
            )
    joined = {key: _join_column(key, tables) for key in first.columns}
    columns = {key: cells for key, (cells, _) in joined.items()}
    own = [line for _, lines in joined.values() for line in lines]
    counted = [each.lines for each in tables]
    lines = LazyLines(sum(map(len, counted)), lambda: list(itertools.chain.from_iterable(counted)))
    remarks = dict.fromkeys([*(line for each in tables for line in each.remarks), *own])
    decimal_commas = all(each.decimal_commas for each in tables)
    return RawTable(name, columns, lines, tuple(remarks), any(each.commas for each in tables), decimal_commas)


def _join_column(name: str, tables: list[RawTable]) -> tuple[Cells, list[str]]:
    """The column of all files, and a remark where they were read each by its own spelling."""
    parts = [table.columns[name] for table in tables]
    points = all(part.point is not None for part in parts)  # usual, and needs no second look
    if any(part.kind != "text" for part in parts) or (
        points and not any(table.groups_by_points(name) for table in tables)
    ):
        return join_cells(parts), []
    words = {word for part in parts for word in part.words}
    lower = {word.lower() for word in words}
    if lower <= {"true", "false"} and len(lower) < len(words):  # TRUE here, True there
        return join_cells([Cells(pc.utf8_lower(part.text)) for part in parts]), []
    columns = [_read_alone(table, name) for table in tables]
    read, marks = columns[0].read, {table.decimal_commas for table in tables}
    if len({each.read for each in columns}) > 1 or read not in NUMERIC:
        return join_cells(parts), []
    filled = [place for place, part in enumerate(parts) if len(part.vocabulary)]
    units = {columns[place].unit: tables[place].name for place in filled}
    if len(units.keys() - {""}) > 1 or ("%" in units and len(units) > 1):
        some = sorted(units.items(), key=lambda each: not each[0])[:2]
        differ = " and ".join(
            f"{'in ' + unit if unit else 'without a unit'} in {file}" for unit, file in some
        )
        return join_cells(parts), [f"{name!r} is {differ}, and is read as words; bring them to one unit."]
    values = [parse(column, part.vocabulary) for column, part in zip(columns, parts, strict=True)]
    if len(marks) == 1 and _have_common_spelling(parts, columns, values):
        return join_cells(parts), []
    rows = [np.append(own, np.nan)[part.codes] for own, part in zip(values, parts, strict=True)]
    typed = join_cells([Cells(pa.array(own, from_pandas=True), read) for own in rows])
    by_spelling = {(columns[place].spelling, columns[place].unit): tables[place].name for place in filled}
    files = " and ".join([*by_spelling.values()][:2])
    remark = f"{name!r} is written differently in {files}: each by its own spelling."
    unit = max(units, default="")
    notes = []
    spellings = tuple(dict.fromkeys(columns[place].spelling for place in filled))
    typed.written = Written(join_cells([Cells(part.text) for part in parts]).text, spellings, unit)
    for spelling in spellings:
        own = [place for place in filled if columns[place].spelling == spelling]
        vocabularies = [parts[place].vocabulary.cast(pa.string()) for place in own]
        words = pa.chunked_array(vocabularies).unique()
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        whose = f"{tables[own[0]].name}{more}: " if len(spellings) > 1 else ""
        column = columns[own[0]]._replace(unit=unit)
        notes += [whose + line for line in describe_reading(column, words)]
    return typed, [remark, *notes] if len(by_spelling) > 1 else notes


def _read_alone(table: RawTable, name: str) -> ColumnRecipe:
    """How the column of one file would be read without the others."""
    words = table.columns[name].vocabulary
    used = words.filter(pa.array(~is_mark(words)))
    for read in NUMERIC:
        spelt = table.spellings(ColumnRecipe(name, read), used)
        column = next((each for each in spelt if reads_all(each, used)), None)
        if column and not (read == "number" and are_ranges(used)):
            return column
    return ColumnRecipe(name, "words")


def _have_common_spelling(parts: list[Cells], columns: list[ColumnRecipe], values: list[Floats]) -> bool:
    """Whether one of the files' spellings reads all of them as they read themselves."""
    unit = max(column.unit for column in columns)  # '' where there is none
    by_spelling = {column.spelling: column._replace(unit=unit) for column in columns}
    return any(
        all(
            np.array_equal(parse(column, part.vocabulary), own, equal_nan=True)
            for part, own in zip(parts, values, strict=True)
        )
        for column in by_spelling.values()
    )


def _with_owners(joined: RawTable, tables: list[RawTable]) -> RawTable:
    """With a column that says which file a row came from; one that the files have may say the same."""
    usual = [name for name in joined.columns if name.lower() in CLIENTS]
    for name in usual:
        words = [each.columns[name].words for each in tables]
        if all(len(own) == 1 for own in words) and len({own[0] for own in words}) == len(tables):
            return joined._replace(client=name)
    files, remarks, client = name_files([Path(each.name) for each in tables]), list(joined.remarks), SITE
    if any("/" in name for name in files):
        remarks.append(f"Files of one name are told apart by their folders: {', '.join(files)}.")
    if usual:
        remarks.append(f"Every file is a client; --client-column {usual[0]} goes by that column instead.")
    while client in joined.columns:
        client += " file"
    codes = [name for name, each in zip(files, tables, strict=True) for _ in range(each.rows)]
    columns = joined.columns | {client: Cells(pa.array(codes, pa.string()))}
    return joined._replace(columns=columns, remarks=tuple(remarks), client=client)


def name_files(files: list[Path]) -> list[str]:
    """Each file's name without its ending, with as many of its folders as tell all of them apart."""
    whole = [file.absolute() for file in files]
    ends = [max(len(end) for end in ENDINGS if file.name.lower().endswith(end)) for file in whole]
    bare = [file.with_name(file.name[:-end] or file.name) for file, end in zip(whole, ends, strict=True)]
    for paths in (bare, whole):
        for depth in range(1, 1 + max(len(path.parts) for path in paths)):
            names = ["/".join(path.parts[-depth:]) for path in paths]
            if len(set(names)) == len(names):
                return names
    twice = next(file for place, file in enumerate(whole) if file in whole[:place])
    raise UserError(f"{twice} is given twice; give every site's file once.")
