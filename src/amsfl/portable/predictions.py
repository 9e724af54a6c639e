"""Predictions as a table: the row's number, its class and a probability for every class; or its value."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from amsfl.core import UserError
from amsfl.portable.model import PortableModel

RISKY = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would take such a cell for a formula
# a lone sign, a number, a word behind signs: they call nothing
HARMLESS = re.compile(r"=|[-+@]*[\w.,]*([eE][-+]\d+)?")


def as_csv(
    model: PortableModel, rows: Any, kept: Mapping[str, Sequence[str]] | None = None
) -> tuple[bytes, int]:
    """The table's text, and how many rows it has; `kept` are columns that stand beside the predictions."""
    beside, chances = kept or {}, [f"p({name})" for name in model.classes]
    for name in beside:
        if name in ("row", "prediction", *chances):
            raise UserError(
                f"Predictions have a column {name!r} of their own; rename that of the new rows, or leave "
                "it out of --keep."
            )
    outputs = model.logits(rows)
    names = [_cell(name) for name in model.classes]
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["row", *map(_cell, beside), "prediction", *chances])
    if model.classes:
        cells = [
            [names[int(row.argmax())], *(f"{chance:.6g}" for chance in row)] for row in model.chances(outputs)
        ]
    else:  # all digits: labels may be large and differ by little
        cells = [[repr(value)] for value in model.named(outputs).tolist()]
    for place, values in enumerate(cells):
        out.writerow([place + 1, *(_cell(cells[place]) for cells in beside.values()), *values])
    return text.getvalue().encode(), len(cells)


def _cell(name: str) -> str:
    """A name as it is; an apostrophe before one that a spreadsheet would run."""
    return f"'{name}" if name.startswith(RISKY) and not HARMLESS.fullmatch(name) else name
