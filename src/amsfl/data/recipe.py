# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""How a table becomes numbers, as data: fitted once, kept with the model, applied to new rows alike."""

from typing import NamedTuple

from amsfl.data.dates import format_date

NUMERIC = ("number", "date")
GAP = "(missing)"  # the category of a gap


class ColumnRecipe(NamedTuple):
    """One column of a table. A number becomes (value - shift) / scale within limits."""

    name: str
    read: str  # number, date, words (one column a word), hash (a bucket), text (its words), frequency
    spelling: str = ""  # of numbers: point, comma, grouped, flag (booleans); of dates: as strptime has it
    unit: str = ""  # that its numbers were written with
    spellings: tuple[str, ...] = ()  # of sites that write differently: theirs, any of which new rows may have
    codes: tuple[str, ...] = ()  # words and numbers that stand for a gap, as in -999
    fill: float | str | None = None  # what stands for a gap; None: a gap is refused
    site_fill: dict[str, float | str] = {}  # the same by site, where sites fill their own
    indicator: bool = False  # of numbers: one more feature says where a gap was
    log: bool = False  # of 1 + value, before shift and scale
    shift: float = 0.0
    scale: float = 1.0  # 0: the column is constant and nothing is learned from it
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    counts: dict[str, int] = {}  # of frequency
    buckets: int = 0  # of hash and text

    @property
    def constant(self) -> bool:
        """The same in all training rows."""
        if self.read == "words":
            return len(self.words) < 2
        return not self.scale and not self.indicator

    @property
    def features(self) -> tuple[str, ...]:
        if self.read == "words":
            return tuple(f"{self.name}={word}" for word in self.words)
        if self.buckets:
            return tuple(f"{self.name}#{bucket}" for bucket in range(self.buckets))
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)


class Recipe(NamedTuple):
    """All columns in the order of the features, and whose rows are whose."""

    columns: tuple[ColumnRecipe, ...]
    label: str = ""
    client: str = ""  # column that names a row's site, "" for none
    left_out: dict[str, str] = {}  # column -> why
    remarks: tuple[str, ...] = ()  # what was decided, and how to decide otherwise

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.features)

    @property
    def label_column(self) -> ColumnRecipe:
        """The label; what means a gap holds for every column alike, so the first one tells."""
        return ColumnRecipe(self.label, "words", codes=self.columns[0].codes)


def format_fill(column: ColumnRecipe) -> str:
    """What stands for a gap, for people."""
    if column.read == "date":
        return format_date(float(column.fill or 0), column.spelling or "iso")
    if column.read == "number":
        value = float(column.fill or 0)
        return "0" if abs(value) < 1e-9 * max(column.scale, 1e-300) else f"{value:.6g}"
    return str(column.fill)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
