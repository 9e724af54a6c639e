"""Predictions as a table: the row's number, its class, and a probability for every class."""

import csv
import io
from collections.abc import Mapping, Sequence

from amsfl.portable.network import Array

RISKY = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would take such a cell for a formula


def as_csv(classes: Sequence[str], chances: Array, kept: Mapping[str, Sequence[str]] | None = None) -> bytes:
    """`kept` are columns of the new rows that stand beside their predictions."""
    beside = kept or {}
    names = [_cell(name) for name in classes]
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["row", *map(_cell, beside), "prediction", *(f"p({name})" for name in classes)])
    for place, row in enumerate(chances):
        own = [_cell(cells[place]) for cells in beside.values()]
        chosen = names[int(row.argmax())]
        out.writerow([place + 1, *own, chosen, *(f"{chance:.6g}" for chance in row)])
    return text.getvalue().encode()


def _cell(name: str) -> str:
    """A name as it is; a number such as -1 stays one."""
    try:
        float(name)
    except ValueError:
        return f"'{name}" if name.startswith(RISKY) else name
    return name
