"""Small CSV files that users write by hand, line by line."""

import csv
from collections.abc import Sequence
from pathlib import Path

from amsfl.core import UserError

Lines = list[tuple[int, dict[str, str]]]


def cells(path: Path, wanted: str) -> tuple[Sequence[str], Lines]:
    """The header and the lines of a CSV, each with its number; `wanted` says what it should have been."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header: Sequence[str] = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = header
            return header, [(reader.line_num, line) for line in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot read {path}: {reason}. Give {wanted}.") from error
