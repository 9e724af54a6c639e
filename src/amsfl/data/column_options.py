"""What a user says about the columns of a table: to drop, keep or read in some way, and what a gap is."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from amsfl.core import UserError, nearest

READS = ("number", "date", "words", "hash", "text", "frequency", "drop")
IMPUTE = ("indicator", "shared", "site", "refuse")
SCALES = ("standard", "none")

Names = str | Sequence[str]


@dataclass(frozen=True)
class ColumnOptions:
    """What the user says about the columns of a table; which of them are meant, only a table can say."""

    drop: Names = ""  # as in 'a,b', or a list
    columns: Names = ""  # how to read some, as in 'zip=words,code=hash'
    impute: str = "indicator"  # what becomes of gaps
    scale: str = "standard"
    keep: Names = ""  # columns that look like identifiers and are none
    missing: Names = ""  # words and numbers that mean a gap

    def __post_init__(self) -> None:
        for what, value, choices in (("impute", self.impute, IMPUTE), ("scale", self.scale, SCALES)):
            if value not in choices:
                raise UserError(f"Unknown {what} {value!r}{nearest(value, choices)}.")

    @property
    def codes(self) -> tuple[str, ...]:
        return split_names(self.missing)


def columns_asked(options: ColumnOptions, known: Collection[str]) -> dict[str, str]:
    """By the name of a column, how the user wants it read: '' as it looks, `drop` not at all."""
    asked = dict.fromkeys(split_names(options.keep, known), "")
    for pair in split_names(options.columns, {f"{name}={how}" for name in known for how in READS}):
        name, sign, how = (part.strip() for part in pair.rpartition("="))
        if not sign or how not in READS:
            raise UserError(f"--columns {pair!r} is not NAME=HOW with HOW one of {', '.join(READS)}.")
        asked[name] = how
    return asked | dict.fromkeys(split_names(options.drop, known), "drop")


def split_names(names: Names, known: Collection[str] = ()) -> tuple[str, ...]:
    """Names between commas; a known one may hold commas, and the longest that fits is meant."""
    if not isinstance(names, str):
        return tuple(name if name in known else name.strip() for name in map(str, names) if name.strip())
    parts, meant = names.split(","), []
    while parts:
        lengths = range(len(parts), 0, -1)
        length = next((size for size in lengths if ",".join(parts[:size]).strip() in known), 1)
        meant.append(",".join(parts[:length]).strip())
        parts = parts[length:]
    return tuple(filter(None, meant))
