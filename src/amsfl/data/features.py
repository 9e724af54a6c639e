"""A recipe is fitted to the training rows of a table; rows become features by it, the same code for all rows.

What is fitted are counts, sums and medians, which a federation can find by counts alone: no row is shown.
"""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from amsfl.core import UserError, listed
from amsfl.data.cells import Floats
from amsfl.data.dataset import FloatArray, IntArray, mean_and_deviation
from amsfl.data.read_table import RawTable
from amsfl.data.recipe import FORMS, GAP, ColumnRecipe, Recipe, columns_flag, plural, whole

MOST_WORDS = 64  # of a column, the commonest: each gets a feature
ROUNDING = 16 * np.finfo(np.float64).eps  # of the largest value: sums of equal values may differ by it
FAR = 10.0  # standard deviations beyond which a value is cut off: one typo must not own the gradient
DIFFERENT = 0.9  # share of different words from which a column of more than MOST_WORDS names its rows
NUMBERED = 30  # different cells from which a column that has no whole number or word twice names its rows
NAMED_ID = re.compile(r"(^|[_\W])(id|uuid|guid|nr)$|^(id|unnamed)([_\W]|$)|(?-i:[a-z]I[dD])$", re.I)
CODE = re.compile(r"-(9{2,}|1)$|9{3,}$")  # -999 and the like, which mean a gap in many files
ENOUGH, OTHER_SCALE = 10, 8.0  # rows, and how many times as large: another scale
SHOWN = 5  # names in a sentence
SAID = 20  # columns in a sentence on new rows


def fit(table: RawTable, label: str, client: str, rows: IntArray, asked: Mapping[str, str]) -> Recipe:
    """The recipe of all columns but label and client, by some of the rows."""
    columns, left_out, remarks, gaps = [], {}, list(table.remarks), []
    for name in table.frame:
        if name in (label, client):
            continue
        cells, how = table.frame[name].iloc[rows], asked.get(name, "")
        kind = table.kind(name)
        column = ColumnRecipe(name, "words" if kind == "text" else kind, table.forms.get(name, ""))
        why = "as you said" if how == "drop" else ""
        if not how:
            why = _why_left_out(column, cells)
        if name == table.site and not how:  # new rows in a file of their own do not have it
            why = "it says which file a row came from"
        if why:
            left_out[name] = why
            if how != "drop":
                remarks.append(f"Left out {name!r}: {why}; {columns_flag(name, 'keep')} keeps it.")
            continue
        if column.numeric:
            column = _standardised(column, cells.to_numpy(float))
            remarks += _ask_codes(name, cells) if column.read == "number" else []
        else:
            counts = cells.fillna(GAP).value_counts()
            words = [word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
            if how != "words" and cells.nunique() > MOST_WORDS:
                words = words[:MOST_WORDS]
                remarks.append(
                    f"{name!r} has {len(counts):,} different words, and the {MOST_WORDS} commonest count; "
                    f"{columns_flag(name, 'words')} takes all, {name}=drop none."
                )
            column = column._replace(words=tuple(sorted(words)))
        columns.append(column)
        count = int(table.frame[name].isna().sum())
        gaps += [f"{name!r} {count:,}"] if count else []
    if gaps:
        remarks.append(
            f"Gaps are a category of their own, of numbers a feature beside the median: {listed(gaps, SAID)}."
        )
    return Recipe(tuple(columns), label, client, left_out=left_out, remarks=tuple(remarks))


def _why_left_out(column: ColumnRecipe, cells: pd.Series) -> str:
    """'' or why a column should not be learned from: it is empty, or names its rows."""
    present, named = cells.dropna(), NAMED_ID.search(column.name)
    count = len(present)
    if not count:
        return "it is empty in every training row"
    if column.read == "date":
        return ""
    if column.read == "words":
        different = present.nunique()
        many = different > MOST_WORDS and different > (0.5 if named else DIFFERENT) * count
        if many or different == count > NUMBERED:
            return f"it looks like an identifier or free text: {different:,} different cells"
        return ""
    if count <= (2 if named else NUMBERED) or (present != np.floor(present)).any():
        return ""
    step = np.diff(present)
    if (step > 0).all() or (step < 0).all():
        return "it looks like a row number or an identifier: its whole numbers follow the rows"
    different = present.nunique()
    if different == count:
        return "it looks like an identifier: every row has its own whole number"
    if named and 2 * different > count > NUMBERED:
        return f"it looks like an identifier: {different:,} different whole numbers in {count:,} rows"
    return ""


def _standardised(column: ColumnRecipe, values: Floats) -> ColumnRecipe:
    """With what stands for a gap, mean and deviation; the median of an even count is the lower one."""
    gaps = np.isnan(values)
    fill = float(np.quantile(values[~gaps], 0.5, method="lower")) if not gaps.all() else 0.0
    values = np.where(gaps, fill, values)
    mean, deviation = mean_and_deviation(values)
    constant = deviation <= ROUNDING * np.abs(values).max(initial=1e-300)
    return column._replace(
        fill=fill,
        indicator=bool(gaps.any()),
        shift=mean,
        scale=0.0 if constant else deviation,
        low=-FAR,
        high=FAR,
    )


def _ask_codes(name: str, cells: pd.Series) -> list[str]:
    """Numbers such as -999 that lie outside all others are often a code for a gap: the user knows."""
    values, notes = cells.dropna().to_numpy(float), []
    for end in {values.min(initial=0.0), values.max(initial=0.0)}:
        rest = values[values != end]
        if not CODE.match(f"{end:g}") or len(rest) in (0, len(values)):
            continue
        low, high = rest.min(), rest.max()
        away = low - end if end < low else end - high
        if (end < 0 <= low or end > high) and (away > high - low or end == -1):
            notes.append(
                f"{name!r} is {end:g} in {plural(len(values) - len(rest), 'row')} and from {low:g} to "
                f"{high:g} in all others: if {end:g} means a gap, say --missing={end:g}."
            )
    return notes


def encode(recipe: Recipe, table: RawTable) -> FloatArray:
    """The features of every row, float32 [rows, features]."""
    missing = [column.name for column in recipe.columns if column.name not in table.frame]
    if missing:
        raise UserError(
            f"{table.name} has no column {listed([*map(repr, missing)], SHOWN)}; the model was "
            f"trained with {'it' if len(missing) == 1 else 'them'}. Its columns are {listed(table.frame)}."
        )
    x = np.zeros((len(table.frame), len(recipe.features)), np.float32)
    start = 0
    for column in recipe.columns:
        _encode_column(column, table, x[:, start : start + len(column.features)])
        start += len(column.features)
    return x


def _encode_column(column: ColumnRecipe, table: RawTable, x: FloatArray) -> None:
    """Into its features, which are zeros."""
    if column.numeric:
        values = column_numbers(column, table)
        gaps = np.isnan(values)
        if gaps.any() and column.fill is None:
            where = table.place(int(np.argmax(gaps)))
            raise UserError(
                f"{table.name}: {where}, column {column.name!r} is empty, and the model knows no gaps; "
                "fill it in."
            )
        x[:, 0] = scaled(column, np.where(gaps, column.fill or 0.0, values))
        if column.indicator:
            x[:, 1] = gaps
        return
    places, _ = word_places(column, table)
    familiar = np.flatnonzero(places >= 0)  # a word that no training row had is all zeros
    x[familiar, places[familiar]] = 1


def column_numbers(column: ColumnRecipe, table: RawTable) -> Floats:
    """Its numbers, or dates in days; nan for a gap. A cell that is neither is an error."""
    cells = table.frame[column.name]
    if table.kind(column.name) == column.read or cells.isna().all():
        return np.asarray(cells.to_numpy(float, na_value=np.nan))
    row = int(np.argmax(cells.notna()))
    like = "" if column.read == "number" else f", as in {FORMS[column.form or 'year-first']}"
    raise UserError(
        f"{table.name}: {table.place(row)}, column {column.name!r} is {cells.iloc[row]!r}; it should be a "
        f"{column.read}{like}."
    )


def word_places(column: ColumnRecipe, table: RawTable) -> tuple[IntArray, list[str]]:
    """Of every row the place of its word among the column's features, -1 where no training row had it; and
    those words."""
    codes, words = pd.factorize(table.frame[column.name].fillna(GAP))
    known = {word: nth for nth, word in enumerate(column.words)}
    known = {whole(word): nth for word, nth in known.items()} | known
    places = [known.get(word, known.get(whole(word), -1)) for word in words]
    strange = sorted(word for word, place in zip(words, places, strict=True) if place < 0)
    return np.array(places, np.int64)[codes], strange


def scaled(column: ColumnRecipe, values: Floats) -> Floats:
    values = np.log1p(values) if column.log else values
    if not column.scale:
        return np.zeros_like(values)
    with np.errstate(over="ignore"):  # cut off below
        standard = values / column.scale - column.shift / column.scale
    if column.low is not None or column.high is not None:
        standard = np.clip(standard, column.low, column.high)
    return np.asarray(standard, np.float64)


def other_scale(recipe: Recipe, table: RawTable) -> str:
    """'' or that numbers are plainly on another scale than the training rows': standardised already, say."""
    ratios = []
    for column in recipe.columns:
        if column.read == "number" and column.scale and not column.log:
            high = np.nanquantile(np.abs(column_numbers(column, table)), 0.9) if len(table.frame) else 0.0
            ratios += [high / (abs(column.shift) + column.scale)] if high > 0 else []
    middle = float(np.median(ratios)) if ratios else 1.0
    if len(table.frame) < ENOUGH or 1 / OTHER_SCALE < middle < OTHER_SCALE:
        return ""
    return (
        f"The numbers are about {middle:.2g} times as large as those of the training rows; pass raw columns, "
        "as the table had them. Features that are encoded already go into `model.outputs`."
    )


def checksum_rows(recipe: Recipe, table: RawTable) -> str:
    """Of what a recipe reads of rows and of their label, in whatever order they stand."""
    kept = table.frame[[*(column.name for column in recipe.columns), recipe.label]]
    return f"{int(pd.util.hash_pandas_object(kept, index=False).sum()):016x}"


def unfamiliar_cells(recipe: Recipe, table: RawTable) -> list[str]:
    """What of new rows the training rows had nothing of: gaps, words never met, numbers far outside.

    They are predicted all the same, and whoever asks should know by what.
    """
    filled, strange, far = list[str](), list[str](), dict[str, int]()
    for column in recipe.columns:
        if column.numeric:
            values = column_numbers(column, table)
            gaps = int(np.isnan(values).sum())
            if gaps and not column.indicator:
                filled.append(f"{column.name!r} {gaps:,}")
            if column.scale and column.low is not None and column.high is not None:
                away = scaled(column._replace(low=None, high=None), values[~np.isnan(values)])
                far[column.name] = int(((away < column.low) | (away > column.high)).sum())
        elif len(column.words) != MOST_WORDS:  # of so many the rare ones are unknown to the model anyway
            places, words = word_places(column, table)
            if words:
                rows = plural(int((places < 0).sum()), "row")
                strange.append(f"{column.name!r} in {rows} ({listed(words, SHOWN)})")
    lines = (
        [f"Gaps filled by the median, since no training row had any there: {listed(filled, SAID)}."]
        if filled
        else []
    )
    if strange:
        lines.append(f"Words that no training row had say nothing: {listed(strange, SAID)}.")
    named = [f"{name!r} {count:,}" for name, count in far.items() if count]
    if named:
        total = plural(sum(far.values()), "value")
        lines.append(f"{total} far from the training rows', brought to their limits: {listed(named, SAID)}.")
    return lines
