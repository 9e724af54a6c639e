"""A table by its path: a file of any common kind, or several files, one a site."""

import itertools
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa

from amsfl.core import UserError
from amsfl.data.cells import Cells
from amsfl.data.raw_table import LazyLines, RawTable, from_frame
from amsfl.data.read_csv import read_csv
from amsfl.data.read_typed import READERS, read_typed
from amsfl.data.site_spelling import join_column

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
    if Path(source).is_dir():
        files = list(Path(source).iterdir())
    elif Path(source).exists():
        return []
    elif "*" in source:
        files = list(Path(source).parent.glob(Path(source).name))
    else:
        files = [Path(part) for part in source.split(",")]
        return files if len(files) > 1 and all(_is_file_of_rows(file) for file in files) else []
    return sorted(filter(_is_file_of_rows, files))


def source_name(source: str) -> str:
    """A short name of a source: its file's without ending; of several files their folder's."""
    files = site_files(source)
    if not files or Path(source).is_dir():
        return Path(source).resolve().name if files else Path(source).stem
    return files[0].resolve().parent.name


def _is_file_of_rows(file: Path) -> bool:
    return file.name.lower().endswith(ENDINGS)


def _join_sites(name: str, tables: list[RawTable]) -> RawTable:
    first = tables[0]
    for other in tables[1:]:
        differ = set(other.columns) ^ set(first.columns)
        if differ:
            raise UserError(
                f"{first.name} and {other.name} do not have the same columns: only one of them has "
                f"{sorted(differ)[0]!r}. Every file of a federation needs the same header."
            )
    joined = {key: join_column(key, tables) for key in first.columns}
    columns = {key: cells for key, (cells, _) in joined.items()}
    own = [line for _, lines in joined.values() for line in lines]
    counted = [each.lines for each in tables]
    lines = LazyLines(sum(map(len, counted)), lambda: list(itertools.chain.from_iterable(counted)))
    remarks = dict.fromkeys([*(line for each in tables for line in each.remarks), *own])
    decimal_commas = all(each.decimal_commas for each in tables)
    return RawTable(name, columns, lines, tuple(remarks), any(each.commas for each in tables), decimal_commas)


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
    bare = [file.with_name(_without_ending(file.name) or file.name) for file in whole]
    for paths in (bare, whole):
        for depth in range(1, 1 + max(len(path.parts) for path in paths)):
            names = ["/".join(path.parts[-depth:]) for path in paths]
            if len(set(names)) == len(names):
                return names
    twice = next(file for place, file in enumerate(whole) if file in whole[:place])
    raise UserError(f"{twice} is given twice; give every site's file once.")


def _without_ending(name: str) -> str:
    return name[: -max(len(end) for end in ENDINGS if name.lower().endswith(end))]
