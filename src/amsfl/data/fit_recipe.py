"""The recipe of a table: how each column is read, what stands for gaps, its scale. By training rows."""

import numpy as np

from amsfl.core import UserError, nearest
from amsfl.data import federated_statistics as statistics
from amsfl.data.cells import Cells
from amsfl.data.column_options import ColumnOptions, columns_asked
from amsfl.data.column_types import BUCKETS, infer_column
from amsfl.data.dataset import IntArray
from amsfl.data.federated_statistics import TrainingRows
from amsfl.data.left_out import why_left_out
from amsfl.data.raw_table import RawTable
from amsfl.data.read_column import fill_numbers, read_numbers, read_words
from amsfl.data.recipe import GAP, NUMERIC, ColumnRecipe, Recipe, format_fill, plural

ROUNDING = 16 * np.finfo(np.float64).eps  # of the largest value: sums of equal values may differ by it
FAR = 10.0  # standard deviations beyond which a value is cut off: one typo must not own the gradient
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
    columns, left_out, remarks = [], {}, list(table.remarks)
    gaps = []
    for name in names:
        if asked.get(name) == "drop":
            left_out[name] = "as you said"
            continue
        column, notes = infer_column(table, name, rows, asked.get(name, ""), options)
        why = "" if name in asked else why_left_out(table, column, rows)
        if name == table.client and name not in asked:  # new rows in a file of their own do not have it
            why = "it says which file a row came from"
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

    def counted(counts: IntArray) -> dict[str, int]:
        return {word: int(count) for word, count in zip(cells.words, counts, strict=True) if count}

    each = rows.count_words(cells.codes, len(cells.words))
    words = counted(np.sum(each, axis=0))
    fill: str | None = statistics.most_frequent(words)
    own_words: dict[str, float | str] = {}
    if impute == "indicator":
        fill = GAP
        empty = int((cells.codes[rows.all] < 0).sum())
        words |= {GAP: empty} if empty else {}
    elif impute == "site":
        sites = zip(rows.sites, each, strict=True)
        own_words = {site: statistics.most_frequent(counted(part)) for site, part in sites if part.any()}
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
