"""Which columns nobody should learn from: empty ones, those that name their rows, free text."""

import re

import numpy as np
import pyarrow.compute as pc

from amsfl.data.cells import Floats
from amsfl.data.federated_statistics import TrainingRows
from amsfl.data.raw_table import RawTable
from amsfl.data.read_column import read_numbers
from amsfl.data.recipe import NUMERIC, ColumnRecipe

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


def why_left_out(table: RawTable, column: ColumnRecipe, rows: TrainingRows) -> str:
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
        different = len(np.unique(values))
        if different == len(values):
            return "it looks like an identifier: every row has its own whole number"
        return _why_repeated(step, different) if named and not MEASURE.search(column.name) else ""
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


def _why_repeated(step: Floats, different: int) -> str:
    """'' or why whole numbers under an identifier's name name few rows each; shops of many rows do not."""
    rows = len(step) + 1
    ordered = (step >= 0).all() or (step <= 0).all()
    if (rows > NUMBERED and 2 * different > rows) or (
        ordered and different > NUMBERED and REPEATED * different > rows
    ):
        return f"it looks like an identifier: {different:,} different whole numbers in {rows:,} rows"
    return ""
