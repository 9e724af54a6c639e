"""Predictions as a table: the row's number, its class and a probability for every class; or its value."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from amsfl.portable.model import PortableModel

RISKY = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would take such a cell for a formula


def as_csv(
    model: PortableModel, rows: Any, kept: Mapping[str, Sequence[str]] | None = None
) -> tuple[bytes, int]:
    """The table's text, and how many rows it has; `kept` are columns that stand beside the predictions."""
    outputs, beside = model.logits(rows), kept or {}
    names = [_cell(name) for name in model.classes]
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["row", *map(_cell, beside), "prediction", *(f"p({name})" for name in model.classes)])
    if model.classes:
        cells = [
            [names[int(row.argmax())], *(f"{chance:.6g}" for chance in row)] for row in model.chances(outputs)
        ]
    else:
        cells = [[f"{value:.9g}"] for value in model.named(outputs)]
    for place, values in enumerate(cells):
        out.writerow([place + 1, *(_cell(cells[place]) for cells in beside.values()), *values])
    return text.getvalue().encode(), len(cells)


def _cell(name: str) -> str:
    """A name as it is; a number such as -1 stays one."""
    try:
        float(name)
    except ValueError:
        return f"'{name}" if name.startswith(RISKY) else name
    return name
