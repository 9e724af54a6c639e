"""What a user says about the columns of a table: to drop, keep or read in some way, and what a gap is."""

from collections.abc import Sequence
from typing import NamedTuple

from amsfl.core import UserError, nearest

READS = ("number", "date", "words", "hash", "text", "frequency", "drop")
IMPUTE = ("indicator", "shared", "site", "refuse")
SCALES = ("standard", "none")


class ColumnOptions(NamedTuple):
    """What the user says about the columns of a table."""

    drop: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # name, how to read it
    impute: str = "indicator"  # what becomes of gaps
    scale: str = "standard"
    keep: tuple[str, ...] = ()  # columns that look like identifiers and are none
    missing: tuple[str, ...] = ()  # words and numbers that mean a gap


Names = str | Sequence[str]


def column_options(
    drop: Names = "",
    columns: Names = "",
    impute: str = "indicator",
    scale: str = "standard",
    keep: Names = "",
    missing: Names = "",
) -> ColumnOptions:
    """From settings: names as 'a,b' or as a list, `columns` as 'zip=words,code=hash'."""
    for what, value, choices in (("impute", impute, IMPUTE), ("scale", scale, SCALES)):
        if value not in choices:
            raise UserError(f"Unknown {what} {value!r}{nearest(value, choices)}.")
    pairs = []
    for pair in split_names(columns):
        name, sign, how = (part.strip() for part in pair.rpartition("="))
        if not sign or how not in READS:
            raise UserError(f"--columns {pair!r} is not NAME=HOW with HOW one of {', '.join(READS)}.")
        pairs.append((name, how))
    lists = split_names(drop), tuple(pairs), impute, scale, split_names(keep), split_names(missing)
    return ColumnOptions(*lists)


def split_names(names: Names) -> tuple[str, ...]:
    parts = names.split(",") if isinstance(names, str) else map(str, names)
    return tuple(part.strip() for part in parts if part.strip())
