"""How each column of a table is to be read: found out from the training rows, or as the user says."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError, nearest
from amsfl.data import cell_values as text
from amsfl.data import federated_statistics
from amsfl.data.preprocessing import ColumnRecipe, Recipe, filled, read_values, reader
from amsfl.data.read_table import RawTable

MOST_WORDS = 64  # distinct words that get a column each; more are hashed
BUCKETS = 64
FAR = 10.0  # standard deviations beyond which a value is cut off: one typo must not own the gradient
ODD = 0.1  # share of cells that do not fit the others: below it they are typos, above it all are words
DIFFERENT = 0.9  # share of different words from which a column of more than MOST_WORDS names its rows
READS = ("number", "date", "words", "hash", "frequency", "drop")
IMPUTE = ("shared", "site", "refuse")
SCALES = ("standard", "none")
NAMED_ID = re.compile(
    r"(^|[_\W])(id|uuid|guid|key|nr|no|index)$|^(id|uuid|guid|unnamed)([_\W]|$)|[a-z]Id$", re.I
)


class ColumnOptions(NamedTuple):
    """What the user says about the columns of a table."""

    drop: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # name, how to read it
    impute: str = "shared"  # how gaps are filled
    scale: str = "standard"


def column_options(
    drop: str = "", columns: str = "", impute: str = "shared", scale: str = "standard"
) -> ColumnOptions:
    """From settings: `drop` is 'a,b', `columns` is 'zip=words,code=hash'."""
    for what, value, known in (("impute", impute, IMPUTE), ("scale", scale, SCALES)):
        if value not in known:
            raise UserError(f"Unknown {what} {value!r}{nearest(value, known)}.")
    pairs = []
    for pair in _listed(columns):
        name, sign, how = (part.strip() for part in pair.rpartition("="))
        if not sign or how not in READS:
            raise UserError(f"--columns {pair!r} is not NAME=HOW with HOW one of {', '.join(READS)}.")
        pairs.append((name, how))
    return ColumnOptions(_listed(drop), tuple(pairs), impute, scale)


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


class TrainingRows(NamedTuple):
    """The training rows, site by site: whatever is fitted is fitted to these, through sums."""

    sites: dict[str, npt.NDArray[np.integer]]

    def of(self, values: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
        parts = [values[rows] for rows in self.sites.values()]
        return [part[~np.isnan(part)] for part in parts]

    def cells(self, cells: Sequence[str]) -> list[list[str]]:
        return [[cells[row] for row in rows] for rows in self.sites.values()]


def fit(table: RawTable, label: str, client: str | None, rows: TrainingRows, wish: ColumnOptions) -> Recipe:
    """The recipe of all columns but label and client."""
    names = [name for name in table.columns if name not in (label, client)]
    asked = dict(wish.columns) | dict.fromkeys(wish.drop, "drop")
    for name in asked:
        if name not in names:
            raise UserError(f"There is no column {name!r} to read or drop{nearest(name, names)}.")
    table = _unmarked(table, [name for name in names if asked.get(name, "number") in ("number", "date")])
    columns, left_out, remarks = [], {}, list(table.remarks)
    gaps = []
    for name in names:
        how = asked.get(name) or _suspect(table, name, rows)
        if how == "drop" or how.startswith("it "):
            left_out[name] = "as you said" if how == "drop" else how
            if how != "drop":
                remarks.append(f"Left out {name!r}: {how}; --columns {name}=hash reads it all the same.")
            continue
        column, said = _fitted(table, name, rows, how, wish, client)
        columns.append(column)
        remarks += said
        gaps += _gaps(column, table.columns[name], wish.impute)
    same = [column.name for column in columns if column.constant]
    if same:
        remarks.append(f"The same in all training rows, so nothing is learned from it: {', '.join(same)}.")
    if gaps:
        whose = "each site's own" if wish.impute == "site" else "sums over all sites"
        remarks.append(
            f"Gaps are filled by {whose}: {', '.join(gaps)}; --impute shared, site or refuse decides."
        )
    return Recipe(tuple(columns), label, client or "", left_out, tuple(remarks))


def _unmarked(table: RawTable, names: Sequence[str]) -> RawTable:
    """Words such as '-' or 'missing' are gaps where all other cells of a column are numbers or dates."""
    readers = text.numbers(table.commas) | {name: text.date_reader(name) for name in text.DATES}
    columns, said = dict(table.columns), []
    for name in names:
        cells = columns[name]
        marks = sorted({cell for cell in cells if cell.lower() in text.MARKS})
        rest = [cell for cell in cells if cell and cell not in marks] if marks else []
        if rest and text.spelling(rest, readers):
            columns[name] = text.unmarked(cells)
            said.append(f"In {name!r}, {' and '.join(map(repr, marks))} among numbers or dates is a gap.")
    return table._replace(columns=columns, remarks=(*table.remarks, *said))


def _suspect(table: RawTable, name: str, rows: TrainingRows) -> str:
    """'' or why a column should not be learned from."""
    cells = [cell for part in rows.cells(table.columns[name]) for cell in part if cell]
    different = len(set(cells))
    if not different:
        return "it is empty in every training row"
    numbers = text.spelling(cells, text.numbers(table.commas)) is not None
    if numbers:
        whole = all(cell.lstrip("+-").isdigit() for cell in cells)
        named = NAMED_ID.search(name) and whole and different == len(cells) and different > 2
        return "it looks like an identifier: every row has its own number" if named else ""
    if different > MOST_WORDS and different > DIFFERENT * len(cells) and not _nearly(cells, table):
        dates = text.spelling(cells, {name: text.date_reader(name) for name in text.DATES})
        return "" if dates else f"it looks like an identifier: {different} different words"
    return ""


def _nearly(cells: Sequence[str], table: RawTable) -> bool:
    """Whether all but a few cells are numbers: the few are typos, of which `_mostly` tells."""
    readers = text.numbers(table.commas).values()
    return any(sum(read(cell) is None for cell in cells) <= ODD * len(cells) for read in readers)


def _fitted(
    table: RawTable, name: str, rows: TrainingRows, how: str, wish: ColumnOptions, client: str | None
) -> tuple[ColumnRecipe, list[str]]:
    cells = table.columns[name]
    column, said = _kind(table, name, [cell for part in rows.cells(cells) for cell in part if cell], how)
    if wish.impute != "refuse":  # rows to come may have gaps where these have none
        column = _with_fill(column, table, rows, wish.impute)
    full = filled(column, table, table.columns.get(client or ""))
    return _with_scale(column, full, table, rows, wish.scale), said


def _gaps(column: ColumnRecipe, cells: Sequence[str], impute: str) -> list[str]:
    """How many there are and what stands for them."""
    gaps = cells.count("")
    if not gaps or impute == "refuse":
        return []
    kind = "median" if column.read in ("number", "date") else "commonest word"
    fill = text.shown(column.fill) if column.read == "date" else column.fill
    return [f"{gaps:,} gaps in {column.name!r} ({kind}{'' if impute == 'site' else f' {fill}'})"]


def _kind(table: RawTable, name: str, cells: list[str], how: str) -> tuple[ColumnRecipe, list[str]]:
    """How the column is read, before gaps and scales."""
    dates = {spelling: text.date_reader(spelling) for spelling in text.DATES}
    for read, readers in (("number", text.numbers(table.commas)), ("date", dates)):
        if how not in ("", read):
            continue
        spelling = text.spelling(cells, readers) or _mostly(table, name, cells, readers, how == read)
        if spelling:
            column = ColumnRecipe(name, read, spelling, unit=dict(table.units).get(name, ""))
            return column, [] if spelling in ("point", "iso") else [_spelled(column)]
    counted = federated_statistics.counts([cells])
    words = tuple(sorted(counted))
    if how == "frequency":
        return ColumnRecipe(name, how, counts=counted), []
    if how == "hash" or (not how and len(words) > MOST_WORDS):
        said = (
            f"{name!r} has {len(words):,} different words, hashed into {BUCKETS} columns; --columns "
            f"{name}=frequency, words or drop decide otherwise."
        )
        return ColumnRecipe(name, "hash", buckets=BUCKETS), [] if how else [said]
    return ColumnRecipe(name, "words", words=words), []


def _spelled(column: ColumnRecipe) -> str:
    if column.read == "date":
        return f"Dates in {column.name!r} are read as {text.DATES[column.spelling]}, and become days."
    what = "decimal commas (1,5 is one and a half)"
    what = "commas between thousands (1,500 is fifteen hundred)" if column.spelling == "grouped" else what
    return f"Numbers in {column.name!r} are read with {what}."


def _mostly(
    table: RawTable, name: str, cells: list[str], readers: dict[str, text.Read], asked: bool
) -> str | None:
    """The reader that all but a few cells fit: then those few are mistakes, and the first is named."""
    counted = federated_statistics.counts([cells])
    for spelling, read in readers.items():
        odd = [cell for cell in counted if read(cell) is None]
        share = sum(counted[cell] for cell in odd) / max(1, len(cells))
        if odd and (share <= ODD or asked):
            first = min(table.columns[name].index(cell) for cell in odd)
            what = "dates" if spelling in text.DATES else "numbers"
            raise UserError(
                f"Line {table.lines[first]}, column {name!r} is {table.columns[name][first]!r}, but the rest "
                f"are {what}; mend the cell, or read all of it as words: --columns {name}=words."
            )
    return None


def _with_fill(column: ColumnRecipe, table: RawTable, rows: TrainingRows, impute: str) -> ColumnRecipe:
    cells = table.columns[column.name]
    parts = rows.cells(cells)
    if column.read in ("number", "date"):
        found = rows.of(text.values(cells, reader(column)))
        fill = _written(federated_statistics.median(found), column)
        own = {
            site: _written(federated_statistics.median([part]), column)
            for site, part in zip(rows.sites, found, strict=True)
            if len(part)
        }
    else:
        fill = federated_statistics.most_frequent(federated_statistics.counts(parts))
        own = {
            site: federated_statistics.most_frequent(federated_statistics.counts([part]))
            for site, part in zip(rows.sites, parts, strict=True)
            if any(part)
        }
    return column._replace(fill=fill, site_fill=own if impute == "site" else {})


def _written(value: float, column: ColumnRecipe) -> str:
    """A number as a cell of its column, so that filling in comes before reading."""
    if column.read == "date":
        return text.written(value, column.spelling)
    return f"{value:.12g}".replace(".", "," if column.spelling == "comma" else ".")


def _with_scale(
    column: ColumnRecipe, cells: Sequence[str], table: RawTable, rows: TrainingRows, scale: str
) -> ColumnRecipe:
    """Standardised: mean and deviation over the training rows, never the hold-out."""
    if column.read == "frequency":
        values = np.array([column.counts.get(cell, 0) for cell in cells], np.float64)
        column = column._replace(log=True)
    elif column.read in ("number", "date"):
        values = read_values(column, cells, table)
    else:
        return column
    if scale == "none":
        return column
    parts = rows.of(np.log1p(values) if column.log else values)
    mean, deviation = federated_statistics.mean_and_deviation(parts)
    largest = max(float(np.abs(part).max(initial=1e-300)) for part in parts)
    constant = deviation <= 1e-12 * largest
    return column._replace(shift=mean, scale=0.0 if constant else deviation, low=-FAR, high=FAR)
