"""The recipe of a table by its training rows: what is learned from, what stands for gaps, the scale."""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from amsfl.core import UserError, nearest
from amsfl.data import federated_statistics as statistics
from amsfl.data.cells import Cells
from amsfl.data.column_options import ColumnOptions, columns_asked
from amsfl.data.column_types import BUCKETS, infer_column
from amsfl.data.dataset import IntArray
from amsfl.data.federated_statistics import TrainingRows
from amsfl.data.raw_table import RawTable
from amsfl.data.read_column import fill_numbers, read_numbers, read_words
from amsfl.data.recipe import GAP, NUMERIC, ColumnRecipe, Recipe, format_fill, plural

ROUNDING = 16 * np.finfo(np.float64).eps  # of the largest value: sums of equal values may differ by it
FAR = 10.0  # standard deviations beyond which a value is cut off: one typo must not own the gradient
DIFFERENT = 0.9  # share of different words from which a column of more than FEW_WORDS names its rows
FEW_WORDS = 64
SENTENCE = 3.0  # words of a cell on average from which a column is free text
NUMBERED = 30  # different whole numbers from which a column that has no number twice names its rows
REPEATED = 10  # rows of one identifier, on average, up to which a sorted column of them names its rows
NAMED_ID = re.compile(
    r"(^|[_\W])(id|uuid|guid|key|nr|no|index)$|^(id|uuid|guid|unnamed)([_\W]|$)|(?-i:[a-z]I[dD])$|"
    r"^(account|case|customer|employee|encounter|order|patient|person|record|sample|student|subject|user)id$",
    re.I,
)
MEASURE = re.compile(r"index$|^(key|no)$", re.I)  # names of measurements: heat index, NO, a song's key
GAP_REMARKS = {
    "indicator": "Gaps are a category of their own, of numbers a feature beside the median",
    "shared": "Gaps are filled by sums over all sites",
    "site": "Gaps are filled by each site's own rows",
}


def fit(
    table: RawTable, label: str, client: str | None, rows: TrainingRows, options: ColumnOptions
) -> Recipe:
    """The recipe of all columns but label and client."""
    names = [name for name in table.columns if name not in (label, client)]
    asked = columns_asked(options, names)
    for name in asked:
        if name not in names:
            raise UserError(f"There is no column {name!r} to read, keep or drop{nearest(name, names)}.")
    columns, left_out, remarks, gaps = [], {}, list(table.remarks), []
    for name in names:
        if asked.get(name) == "drop":
            left_out[name] = "as you said"
            continue
        column, notes = infer_column(table, name, rows, asked.get(name, ""), options)
        why = "" if name in asked else _why_left_out(table, column, rows)
        if name == table.client and name not in asked:  # new rows in a file of their own do not have it
            why = "it says which file a row came from"
        if why:
            left_out[name] = why
            back = f"--keep {name} keeps it"
            if "text" in why:
                back = f"--columns {name}=text learns from its words"
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


def _why_left_out(table: RawTable, column: ColumnRecipe, rows: TrainingRows) -> str:
    """'' or why a column should not be learned from: it is empty, names its rows, or is free text."""
    cells, named = table.columns[column.name], NAMED_ID.search(column.name)
    if column.read in NUMERIC:
        values = read_numbers(column, table)[np.sort(rows.all)]
        values = values[~np.isnan(values)]
        if not len(values):
            return "it is empty in every training row"
        if column.read == "date" or (values != np.floor(values)).any():
            return ""
        most = 2 if named else NUMBERED
        if len(values) <= most:
            return ""
        step = np.diff(values)
        if (step > 0).all() or (step < 0).all():
            return "it looks like a row number or an identifier: its whole numbers follow the rows"
        count, different = len(values), len(np.unique(values))
        if different == count:
            return "it looks like an identifier: every row has its own whole number"
        if not named or MEASURE.search(column.name):
            return ""
        ordered = (step >= 0).all() or (step <= 0).all()  # shops of many rows each are no identifiers
        if (count > NUMBERED and 2 * different > count) or (
            ordered and different > NUMBERED and REPEATED * different > count
        ):
            return f"it looks like an identifier: {different:,} different whole numbers in {count:,} rows"
        return ""
    codes = cells.codes[rows.all]
    counts = np.bincount(codes[codes >= 0], minlength=len(cells.words))
    different, total = int((counts > 0).sum()), int(counts.sum())
    if not total:
        return "it is empty in every training row"
    if different > FEW_WORDS and different > (0.5 if named else DIFFERENT) * total:
        some = cells.vocabulary.filter(counts > 0)
        spaces = np.asarray(pc.count_substring_regex(some, r"\s+")).mean()
        if spaces + 1 >= SENTENCE:
            return f"it looks like free text: {different:,} different cells"
        return f"it looks like an identifier: {different:,} different words"
    return ""


def _with_gaps(column: ColumnRecipe, table: RawTable, rows: TrainingRows, impute: str) -> ColumnRecipe:
    """What stands for a gap: rows to come may have some where these have none."""
    shared: float | str
    own: Sequence[float | str | None] = []
    if column.read in NUMERIC:
        numbers = read_numbers(column, table)
        parts = rows.split_numbers(numbers)
        shared = statistics.median(parts)
        if impute == "site":
            own = [statistics.median([part]) if len(part) else None for part in parts]
        gaps = bool(np.isnan(numbers[rows.all]).any())
        column = column._replace(indicator=gaps and impute == "indicator")
    else:
        cells = read_words(column, table)

        def counted(counts: IntArray) -> dict[str, int]:
            return {word: int(count) for word, count in zip(cells.words, counts, strict=True) if count}

        each = rows.count_words(cells.codes, len(cells.words))
        words = counted(np.sum(each, axis=0))
        shared = statistics.most_frequent(words)
        if impute == "site":
            own = [statistics.most_frequent(counted(part)) or None for part in each]
        elif impute == "indicator":
            shared = GAP
            empty = int((cells.codes[rows.all] < 0).sum())
            words |= {GAP: empty} if empty else {}
        if column.read == "words":
            column = column._replace(words=tuple(sorted(words)))
        elif column.read == "frequency":
            column = column._replace(counts=words, log=True)
        else:
            column = column._replace(buckets=BUCKETS[column.read])
    by_site = {site: fill for site, fill in zip(rows.sites, own, strict=False) if fill is not None}
    return column._replace(fill=None if impute == "refuse" else shared, site_fill=by_site)


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
    if column.read not in (*NUMERIC, "frequency"):
        return column
    values, _ = fill_numbers(column, table, sites)  # which refuses gaps
    if scale == "none":
        return column
    parts = rows.split_numbers(np.log1p(values) if column.log else values)
    mean, deviation = statistics.mean_and_deviation(parts)
    largest = max(float(np.abs(part).max(initial=1e-300)) for part in parts)
    constant = deviation <= ROUNDING * largest
    return column._replace(shift=mean, scale=0.0 if constant else deviation, low=-FAR, high=FAR)
