"""Predictions as a table: the row's number, its class, and a probability for every class."""

import csv
import io
from collections.abc import Sequence

from amsfl.portable.network import Array

RISKY = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would take such a cell for a formula


def as_csv(classes: Sequence[str], chances: Array) -> bytes:
    names = [_cell(name) for name in classes]
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["row", "prediction", *(f"p({name})" for name in classes)])
    for place, row in enumerate(chances, start=1):
        out.writerow([place, names[int(row.argmax())], *(f"{chance:.6g}" for chance in row)])
    return text.getvalue().encode()


def _cell(name: str) -> str:
    """A class's name; a number such as -1 stays one."""
    try:
        float(name)
    except ValueError:
        return f"'{name}" if name.startswith(RISKY) else name
    return name
