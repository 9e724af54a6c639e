"""Small CSV files that users write by hand, line by line."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from amsfl.core import UserError

Lines = list[tuple[int, dict[str, str]]]
SEPARATORS = ",;\t"
NAME = "client"  # the column of names; all others hold numbers


def cells(path: Path, wanted: str) -> tuple[Sequence[str], Lines]:
    """The header and the lines of a CSV, each with its number; `wanted` says what it should have been.

    The header says what separates cells; where that is no comma, 0,5 is a half.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            text = list(file)
        separator = max(SEPARATORS, key=text[0].count) if text else ","
        reader = csv.DictReader(text, delimiter=separator)
        header: Sequence[str] = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        lines = [(reader.line_num, line) for line in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot read {path}: {reason}. Give {wanted}.") from error
    if separator == ",":
        return header, lines
    return header, [(row, {name: _decimal(name, cell) for name, cell in line.items()}) for row, line in lines]


def _decimal(column: str, cell: str) -> str:
    """`0,5` as `0.5`, but not in names; anything else as it is. Cells beyond the header come as a list."""
    if column == NAME or not isinstance(cell, str):
        return cell
    return re.sub(r"^(\s*[-+]?\d*),(\d+\s*)$", r"\1.\2", cell)
