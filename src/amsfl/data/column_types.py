"""How each column of a table is to be read: inferred from the training rows, or as the user says."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from amsfl.core import UserError, nearest
from amsfl.data import federated_statistics as statistics
from amsfl.data.cells import (
    DATES,
    LIMIT,
    Cells,
    Codes,
    Floats,
    Parse,
    date_parsers,
    find_unit,
    number_parsers,
)
from amsfl.data.preprocessing import (
    GAP,
    NUMERIC,
    ColumnRecipe,
    Recipe,
    fill_numbers,
    fill_words,
    format_fill,
    is_gap,
    plural,
    read_numbers,
    read_words,
)
from amsfl.data.read_table import RawTable

MOST_WORDS = 64  # distinct words that get a column each; more are hashed
BUCKETS = {"hash": 64, "text": 256}
FAR = 10.0  # standard deviations beyond which a value is cut off: one typo must not own the gradient
ODD = 0.1  # share of cells that do not fit the others: below it they are typos, above it all are words
DIFFERENT = 0.9  # share of different words from which a column of more than MOST_WORDS names its rows
SENTENCE = 3.0  # words of a cell on average from which a column is free text
NUMBERED = 30  # different whole numbers from which a column that has no number twice names its rows
CODE = re.compile(r"-(9{2,}|1)(\.0)?$|9{3,}(\.0)?$")  # -999 and the like, which mean a gap in many files
SAMPLE = 200  # words by which a column is tried first
READS = ("number", "date", "words", "hash", "text", "frequency", "drop")
IMPUTE = ("indicator", "shared", "site", "refuse")
SCALES = ("standard", "none")
NAMED_ID = re.compile(
    r"(^|[_\W])(id|uuid|guid|key|nr|no|index)$|^(id|uuid|guid|unnamed)([_\W]|$)|[a-z]Id$", re.I
)


class ColumnOptions(NamedTuple):
    """What the user says about the columns of a table."""

    drop: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # name, how to read it
    impute: str = "indicator"  # what becomes of gaps
    scale: str = "standard"
    keep: tuple[str, ...] = ()  # columns that look like identifiers and are none
    missing: tuple[str, ...] = ()  # words and numbers that mean a gap


Names = str | Sequence[str]


def column_options(
    drop: Names = "",
    columns: Names = "",
    impute: str = "indicator",
    scale: str = "standard",
    keep: Names = "",
    missing: Names = "",
) -> ColumnOptions:
    """From settings: names as 'a,b' or as a list, `columns` as 'zip=words,code=hash'."""
    for what, value, choices in (("impute", impute, IMPUTE), ("scale", scale, SCALES)):
        if value not in choices:
            raise UserError(f"Unknown {what} {value!r}{nearest(value, choices)}.")
    pairs = []
    for pair in split_names(columns):
        name, sign, how = (part.strip() for part in pair.rpartition("="))
        if not sign or how not in READS:
            raise UserError(f"--columns {pair!r} is not NAME=HOW with HOW one of {', '.join(READS)}.")
        pairs.append((name, how))
    lists = split_names(drop), tuple(pairs), impute, scale, split_names(keep), split_names(missing)
    return ColumnOptions(*lists)


def split_names(names: Names) -> tuple[str, ...]:
    parts = names.split(",") if isinstance(names, str) else map(str, names)
    return tuple(part.strip() for part in parts if part.strip())


class TrainingRows(NamedTuple):
    """The training rows, site by site: whatever is fitted is fitted to these, through sums."""

    sites: dict[str, npt.NDArray[np.integer]]

    @property
    def all(self) -> npt.NDArray[np.integer]:
        return np.concatenate(list(self.sites.values()))

    def split_numbers(self, values: Floats) -> list[Floats]:
        """Each site's values, without gaps."""
        parts = [values[rows] for rows in self.sites.values()]
        return [part[~np.isnan(part)] for part in parts]

    def count_words(self, codes: Codes, words: int) -> list[npt.NDArray[np.int64]]:
        """How often each site has each word."""
        return [np.bincount(codes[rows] + 1, minlength=words + 1)[1:] for rows in self.sites.values()]


def fit(
    table: RawTable, label: str, client: str | None, rows: TrainingRows, options: ColumnOptions
) -> Recipe:
    """The recipe of all columns but label and client."""
    names = [name for name in table.columns if name not in (label, client)]
    asked = dict.fromkeys(options.keep, "") | dict(options.columns) | dict.fromkeys(options.drop, "drop")
    for name in asked:
        if name not in names:
            raise UserError(f"There is no column {name!r} to read, keep or drop{nearest(name, names)}.")
    columns, left_out, remarks = [], {}, list(table.remarks)
    gaps = []
    for name in names:
        if asked.get(name) == "drop":
            left_out[name] = "as you said"
            continue
        column, notes = infer_column(table, name, rows, asked.get(name, ""), options)
        why = "" if name in asked else _why_left_out(table, column, rows)
        if why:
            left_out[name] = why
            back = (
                f"--columns {name}=text learns from its words" if "text" in why else f"--keep {name} keeps it"
            )
            remarks.append(f"Left out {name!r}: {why}; {back}.")
            continue
        column = _with_gaps(column, table, rows, options.impute)
        column = _with_scale(column, table, rows, options.scale, table.columns.get(client or ""))
        columns.append(column)
        remarks += notes
        gaps += _describe_gaps(column, table, options.impute)
    same = [column.name for column in columns if column.constant]
    if same:
        remarks.append(f"The same in all training rows, so nothing is learned from it: {', '.join(same)}.")
    if gaps:
        remarks.append(f"{GAP_REMARKS[options.impute]}: {', '.join(gaps)}; --impute decides otherwise.")
    return Recipe(tuple(columns), label, client or "", left_out, tuple(remarks))


GAP_REMARKS = {
    "indicator": "Gaps are a category of their own, of numbers a feature beside the median",
    "shared": "Gaps are filled by sums over all sites",
    "site": "Gaps are filled by each site's own rows",
}


def infer_column(
    table: RawTable, name: str, rows: TrainingRows, how: str, options: ColumnOptions
) -> tuple[ColumnRecipe, list[str]]:
    """How the column is read, before gaps and scales, and remarks on it."""
    cells, base = table.columns[name], ColumnRecipe(name, how, codes=options.missing)
    if cells.kind in ("number", "flag") and how in ("", "number"):
        return base._replace(read="number", spelling="point"), _ask_codes(table, base, cells.numbers, rows)
    if cells.kind == "date" and how in ("", "date"):
        return base._replace(read="date", spelling="iso"), []
    if cells.point is not None and cells.kind == "text" and how in ("", "number"):
        return base._replace(read="number", spelling="point"), _ask_codes(table, base, cells.point, rows)
    for read in NUMERIC:
        if how in ("", read):
            column, notes = _infer_numeric(table, base._replace(read=read), rows, how == read)
            if column is not None:
                return column, notes
    words = read_words(base, table)
    counts = sum(rows.count_words(words.codes, len(words.words)))
    different = int((np.asarray(counts) > 0).sum())
    if not how and different > MOST_WORDS:
        note = (
            f"{name!r} has {different:,} different words, hashed into {BUCKETS['hash']} columns; --columns "
            f"{name}=frequency, words or drop decide otherwise."
        )
        return base._replace(read="hash"), [note]
    return base._replace(read=how or "words"), []


def _infer_numeric(
    table: RawTable, base: ColumnRecipe, rows: TrainingRows, asked: bool
) -> tuple[ColumnRecipe | None, list[str]]:
    """As numbers or dates, if every training cell fits one spelling; a few that do not are an error."""
    cells = table.columns[base.name]
    vocabulary, notes = cells.vocabulary, []
    counts = np.asarray(sum(rows.count_words(cells.codes, len(vocabulary))))
    marks = is_gap(base, vocabulary) & (counts > 0)
    used = vocabulary.filter(pc.and_(counts > 0, ~marks)) if len(vocabulary) else vocabulary
    if not len(used):
        return None, []
    unit = find_unit(used) if base.read == "number" else ""
    parsers = number_parsers(table.commas, unit) if base.read == "number" else date_parsers()
    some = used[:SAMPLE]  # most columns of words are known for such by a few of them
    parsers = {name: parse for name, parse in parsers.items() if np.isnan(parse(some)).mean() <= 0.5 or asked}
    fits = (name for name, parse in parsers.items() if not np.isnan(parse(used)).any())
    spelling = next(fits, None)
    if spelling is None:
        _refuse_typos(table, base, parsers, counts * ~marks, asked)
        return None, []
    if marks.any():
        some = " and ".join(repr(word) for word in sorted(vocabulary.filter(marks).to_pylist()))
        notes.append(f"In {base.name!r}, {some} among numbers or dates is a gap.")
    column = base._replace(spelling=spelling, unit=unit)
    if unit:
        notes.append(f"Numbers in {base.name!r} are read without their {unit!r}.")
    limits = used.filter(pc.match_substring_regex(used, LIMIT)) if base.read == "number" else []
    if len(limits):
        notes.append(
            f"{plural(len(limits), 'different cell')} of {base.name!r} such as {limits[0].as_py()!r} are "
            "detection limits and read as the limit itself; --missing with such words makes them gaps."
        )
    if spelling not in ("point", "iso"):
        notes.append(_describe_spelling(column))
    return column, notes


def _ask_codes(table: RawTable, column: ColumnRecipe, values: Floats, rows: TrainingRows) -> list[str]:
    """Numbers such as -999 that lie outside all others are often a code for a gap: the user knows."""
    present = values[rows.all]
    present = present[~np.isnan(present)]
    if not len(present):
        return []
    notes = []
    for end in (present.min(), present.max()):
        text, rest = f"{end:g}", present[present != end]
        if not CODE.match(text) or text in column.codes or len(rest) in (0, len(present)):
            continue
        low, high = rest.min(), rest.max()
        gap = min(abs(end - low), abs(end - high))
        if (end < 0 <= low or end > high) and gap > 0 and (gap > high - low or text == "-1"):
            notes.append(
                f"{column.name!r} is {text} in {plural(len(present) - len(rest), 'row')} and from {low:g} to "
                f"{high:g} in all others: if {text} means a gap, say --missing={text}."
            )
    return notes


def _why_left_out(table: RawTable, column: ColumnRecipe, rows: TrainingRows) -> str:
    """'' or why a column should not be learned from: it is empty, names its rows, or is free text."""
    cells = table.columns[column.name]
    if column.read in NUMERIC:
        values = read_numbers(column, table)[np.sort(rows.all)]
        values = values[~np.isnan(values)]
        if not len(values):
            return "it is empty in every training row"
        if column.read == "date" or (values != np.floor(values)).any():
            return ""
        most = 2 if NAMED_ID.search(column.name) else NUMBERED
        if len(values) <= most:
            return ""
        step = np.diff(values)
        if (step > 0).all() or (step < 0).all():
            return "it looks like a row number or an identifier: its whole numbers follow the rows"
        unique = len(np.unique(values)) == len(values)
        return "it looks like an identifier: every row has its own whole number" if unique else ""
    codes = cells.codes[rows.all]
    counts = np.bincount(codes[codes >= 0], minlength=len(cells.words))
    different, total = int((counts > 0).sum()), int(counts.sum())
    if not total:
        return "it is empty in every training row"
    if different > MOST_WORDS and different > DIFFERENT * total:
        some = cells.vocabulary.filter(counts > 0)
        spaces = np.asarray(pc.count_substring_regex(some, r"\s+")).mean()
        if spaces + 1 >= SENTENCE:
            return f"it looks like free text: {different:,} different cells"
        return f"it looks like an identifier: {different:,} different words"
    return ""


def _describe_spelling(column: ColumnRecipe) -> str:
    if column.read == "date":
        return f"Dates in {column.name!r} are read as {DATES[column.spelling]}, and become days."
    what = "decimal commas (1,5 is one and a half)"
    what = "commas between thousands (1,500 is fifteen hundred)" if column.spelling == "grouped" else what
    return f"Numbers in {column.name!r} are read with {what}."


def _refuse_typos(
    table: RawTable, column: ColumnRecipe, parsers: dict[str, Parse], counts: Codes, asked: bool
) -> None:
    """Where all but a few cells fit a spelling, those few are mistakes, and the first is named."""
    cells = table.columns[column.name]
    for parse in parsers.values():
        odd = np.isnan(parse(cells.vocabulary)) & (counts > 0)
        if odd.any() and (counts[odd].sum() <= ODD * counts.sum() or asked):
            row = int(np.argmax(np.append(odd, False)[cells.codes]))
            what = "dates" if column.read == "date" else "numbers"
            raise UserError(
                f"Line {table.lines[row]}, column {column.name!r} is {table.cell(column.name, row)!r}, but "
                f"the rest are {what}; mend the cell, or read all of it as words: --columns "
                f"{column.name}=words."
            )


def _with_gaps(column: ColumnRecipe, table: RawTable, rows: TrainingRows, impute: str) -> ColumnRecipe:
    """What stands for a gap: rows to come may have some where these have none."""
    if column.read in NUMERIC:
        if impute == "refuse":
            return column
        numbers = read_numbers(column, table)
        parts = rows.split_numbers(numbers)
        own: dict[str, float | str] = {
            site: statistics.median([part])
            for site, part in zip(rows.sites, parts if impute == "site" else [], strict=False)
            if len(part)
        }
        gaps = bool(np.isnan(numbers[rows.all]).any())
        return column._replace(
            fill=statistics.median(parts), site_fill=own, indicator=gaps and impute == "indicator"
        )
    cells = read_words(column, table)
    counts = rows.count_words(cells.codes, len(cells.words))
    total = np.asarray(sum(counts))
    words = {word: int(count) for word, count in zip(cells.words, total, strict=True) if count}
    fill: str | None = statistics.most_frequent(words)
    own_words: dict[str, float | str] = {}
    if impute == "indicator":
        fill = GAP
        empty = int((cells.codes[rows.all] < 0).sum())
        words |= {GAP: empty} if empty else {}
    elif impute == "site":
        own_words = {
            site: statistics.most_frequent(
                {word: int(n) for word, n in zip(cells.words, part, strict=True) if n}
            )
            for site, part in zip(rows.sites, counts, strict=True)
            if part.any()
        }
    column = column._replace(fill=None if impute == "refuse" else fill, site_fill=own_words)
    if column.read == "words":
        return column._replace(words=tuple(sorted(words)))
    if column.read == "frequency":
        return column._replace(counts=words, log=True)
    return column._replace(buckets=BUCKETS[column.read])


def _describe_gaps(column: ColumnRecipe, table: RawTable, impute: str) -> list[str]:
    """How many there are and what stands for them."""
    if impute == "refuse":
        return []
    numeric = column.read in NUMERIC
    gaps = np.isnan(read_numbers(column, table)) if numeric else read_words(column, table).gaps
    if not gaps.any():
        return []
    kind = "median" if numeric else "as" if impute == "indicator" else "commonest word"
    shown = "" if impute == "site" else f" {format_fill(column)}"
    return [f"{plural(int(gaps.sum()), 'gap')} in {column.name!r} ({kind}{shown})"]


def _with_scale(
    column: ColumnRecipe, table: RawTable, rows: TrainingRows, scale: str, sites: Cells | None
) -> ColumnRecipe:
    """Standardised: mean and deviation over the training rows, never the hold-out."""
    if column.read == "frequency":
        words, codes = fill_words(column, table, sites)
        values = np.array([column.counts.get(word, 0) for word in words], np.float64)[codes]
    elif column.read in NUMERIC:
        values, _ = fill_numbers(column, table, sites)
    else:
        return column
    if scale == "none":
        return column
    parts = rows.split_numbers(np.log1p(values) if column.log else values)
    mean, deviation = statistics.mean_and_deviation(parts)
    largest = max(float(np.abs(part).max(initial=1e-300)) for part in parts)
    constant = deviation <= 1e-12 * largest
    return column._replace(shift=mean, scale=0.0 if constant else deviation, low=-FAR, high=FAR)
