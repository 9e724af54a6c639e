"""What new rows hold that the training rows had nothing of."""

import numpy as np

from amsfl.data.cells import Cells
from amsfl.data.preprocessing import SHOWN, scaled, sites_of
from amsfl.data.raw_table import RawTable
from amsfl.data.read_column import fill_numbers, fill_words, read_words
from amsfl.data.recipe import GAP, NUMERIC, ColumnRecipe, Recipe, format_fill, plural


def unfamiliar_cells(recipe: Recipe, table: RawTable) -> list[str]:
    """What of new rows the training rows had nothing of: gaps, words never met, numbers far outside.

    They are predicted all the same, and whoever asks should know by what.
    """
    return [line for column in recipe.columns for line in _unfamiliar(column, table, sites_of(recipe, table))]


def _unfamiliar(column: ColumnRecipe, table: RawTable, sites: Cells | None) -> list[str]:
    if column.read in NUMERIC:
        numbers, gaps = fill_numbers(column, table, sites)
        lines = [] if column.indicator else _filled(column, int(gaps.sum()), sites)
        if column.scale and column.high is not None:
            far = scaled(column._replace(low=None, high=None), numbers)
            cut = int(((far < (column.low or -np.inf)) | (far > column.high)).sum())
            if cut:
                lines.append(f"{plural(cut, 'value')} of {column.name!r} far from the training rows', cut.")
        return lines
    words, codes = fill_words(column, table, sites)
    lines = [] if column.fill == GAP else _filled(column, int(read_words(column, table).gaps.sum()), sites)
    familiar = {"words": column.words, "frequency": column.counts}.get(column.read)
    if familiar is not None:
        strange = np.array([word not in familiar for word in words], bool)
        count = int(strange[codes].sum())
        if count:
            some = sorted(word for word, new in zip(words, strange, strict=True) if new)
            lines.append(
                f"{plural(count, 'cell')} of {column.name!r} with words that no training row had "
                f"({', '.join(some[:SHOWN])}): nothing is known of them."
            )
    return lines


def _filled(column: ColumnRecipe, gaps: int, sites: Cells | None) -> list[str]:
    own = "each site's own, of new sites " if column.site_fill and sites is not None else ""
    return [f"{plural(gaps, 'gap')} in {column.name!r} filled ({own}{format_fill(column)})."] if gaps else []
