"""One column of a table: numbers and dates that came typed, or text and the ways to read it as numbers.

A typed number stays what it is. Only text is read by a spelling: 1.5, 1,500 or 1,5; a date in one of the
usual orders; with a unit, a mark for a gap or a detection limit. Text is parsed once for every distinct word.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

DAY = 86_400
SOME = 100  # cells that are tried before all are
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?")
MARKS = ("-", "--", ".", "none", "missing", "unknown", "n.a.", "nd", "nil", "k.a.")  # gaps, among numbers
LIMIT = r"^[<>]=?\s*"  # <0.5: below a detection limit
SIGN = r"^[+-]?"
PATTERNS = {  # as RE2 has them
    "point": SIGN + r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$",
    "grouped": SIGN + r"(\d{1,3}(,\d{3})+(\.\d+)?|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)$",  # 1,234,567.8
    "comma": SIGN + r"\d+(\.\d{3})*(,\d+)?([eE][+-]?\d+)?$",  # 1234,5 and 1.234,5
}
DATES = {  # in this order: the first that fits every cell
    "iso": "year-month-day",
    "%d.%m.%Y": "day.month.year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y": "month/day/year",
    "%Y/%m/%d": "year/month/day",
    "%d-%m-%Y": "day-month-year",
    "%d.%m.%y": "day.month.year",
    "%d/%m/%y": "day/month/year",
    "%m/%d/%y": "month/day/year",
    "%d-%b-%Y": "day-month's name-year",
    "%d %b %Y": "day month's name year",
    "%d %B %Y": "day month's name year",
    "%b %d, %Y": "month's name day, year",
    "%B %d, %Y": "month's name day, year",
    "time": "hour:minute, of one day",
}
HOURS = ("", " %H:%M", " %H:%M:%S")  # by how many colons there are; and with AM or PM behind
HALVES = ("", " %I:%M %p", " %I:%M:%S %p")
TIME = re.compile(r"\d{1,2}:\d\d(:\d\d)?( ?[ap]m)?", re.I)  # 3:1 is a score
MONEY = ("€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF")  # before or behind the number
UNITS = (
    *("%", "kg", "mg", "g", "km", "cm", "mm", "m", "ml", "l", "mmHg", "bpm", "°C", "°F", "h", "min"),
    *("s", "ms", *MONEY),
)


class Cells:
    """A column. `kind` is text, number, flag (a typed boolean) or date (typed, in days); null is a gap.

    Text that a file's reader already took for numbers comes with a function that reads it again as text.
    """

    def __init__(self, array: pa.Array, kind: str = "text", read_text: Callable[[], pa.Array] | None = None):
        self.array, self.kind, self.read_text = array, kind, read_text

    def __len__(self) -> int:
        return len(self.array)

    @property
    def gaps(self) -> Mask:
        return np.asarray(self.array.is_null())

    @property
    def numbers(self) -> Floats:
        """Of typed columns: nan for a gap, days for dates."""
        return np.asarray(self.array.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)

    @cached_property
    def text(self) -> pa.Array:
        """The cells as words; whole numbers without a point."""
        if self.read_text is not None:
            return self.read_text()
        if self.kind == "text":
            return self.array
        if self.kind == "flag":
            return pc.if_else(pc.equal(self.array, 1.0), "True", "False")
        if self.kind == "date":
            days = [None if np.isnan(day) else format_date(day, "iso") for day in self.numbers]
            return pa.array(days, pa.string())
        return self.array.cast(pa.string())

    @cached_property
    def _encoded(self) -> tuple[pa.Array, Codes]:
        encoded = self.text.dictionary_encode()
        codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(), np.int32)
        return encoded.dictionary, codes

    @property
    def vocabulary(self) -> pa.Array:
        """The distinct words in the order of their first row."""
        return self._encoded[0]

    @cached_property
    def words(self) -> list[str]:
        return list(self.vocabulary.to_pylist())

    @property
    def codes(self) -> Codes:
        """Each row's place in the vocabulary, -1 for a gap."""
        return self._encoded[1]

    def filter(self, mask: Mask) -> "Cells":
        read_text = self.read_text
        again = None if read_text is None else lambda: read_text().filter(pa.array(mask))
        return Cells(self.array.filter(pa.array(mask)), self.kind, again)

    def take(self, order: npt.NDArray[np.integer]) -> "Cells":
        """Rows in another order."""
        read_text = self.read_text
        again = None if read_text is None else lambda: read_text().take(pa.array(order))
        return Cells(self.array.take(pa.array(order)), self.kind, again)

    @cached_property
    def point(self) -> Floats | None:
        """Text that is finite numbers with a decimal point throughout, without a look at single words."""
        if self.kind != "text":
            return None
        try:
            self.array[:SOME].cast(pa.float64())  # a cast that fails is slow
            values = self.array.cast(pa.float64())
        except pa.ArrowInvalid:
            return None
        numbers = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
        return numbers if (np.isfinite(numbers) | self.gaps).all() else None


def join_cells(parts: list[Cells]) -> Cells:
    """Columns one below the other; typed where all of them are."""
    kinds = {part.kind for part in parts if part.array.null_count < len(part)}
    if len(kinds) == 1 and kinds != {"text"}:
        arrays = [part.array.cast(pa.float64()) for part in parts]
        return Cells(pa.chunked_array(arrays).combine_chunks(), kinds.pop())

    def text() -> pa.Array:
        return pa.chunked_array([part.text.cast(pa.string()) for part in parts]).combine_chunks()

    if kinds == {"text"} and all(part.point is not None for part in parts):
        arrays = [part.array.cast(pa.float64()) for part in parts]
        return Cells(pa.chunked_array(arrays).combine_chunks(), "text", text)
    return Cells(text())


def parse_numbers(words: pa.Array, spelling: str, unit: str = "") -> Floats:
    """The number in each word; nan where there is none by this spelling, and for what is not finite."""
    if unit:
        words = pc.coalesce(_without_unit(words, unit), words)
    if pc.any(pc.match_substring_regex(words, LIMIT)).as_py():
        words = pc.replace_substring_regex(words, LIMIT, "")
    words = pc.if_else(pc.match_substring_regex(words, PATTERNS[spelling]), words, None)
    if spelling == "comma":
        words = pc.replace_substring(pc.replace_substring(words, ".", ""), ",", ".")
    elif spelling == "grouped":
        words = pc.replace_substring(words, ",", "")
    numbers = np.array(words.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def _without_unit(words: pa.Array, unit: str) -> pa.Array:
    """The number without that unit, null where a word has no such unit. Codes such as s12 keep theirs."""
    number, name = r"\d[\d.,]*", re.escape(unit)
    stripped = pc.if_else(
        pc.match_substring_regex(words, rf"^-?{number}\s*{name}$"),
        pc.replace_substring_regex(words, rf"\s*{name}$", ""),
        None,
    )
    if unit not in MONEY:
        return stripped
    before = pc.match_substring_regex(words, rf"^-?{name}\s*-?{number}$")
    return pc.coalesce(
        stripped, pc.if_else(before, pc.replace_substring_regex(words, rf"{name}\s*", ""), None)
    )


def find_unit(words: pa.Array) -> str:
    """The unit that every word has behind or before a number; '' where there is none."""
    first = words.slice(0, 1)
    if not len(first):
        return ""
    fits = (unit for unit in UNITS if _without_unit(first, unit).null_count == 0)
    return next((unit for unit in fits if _without_unit(words, unit).null_count == 0), "")


def is_mark(words: pa.Array) -> Mask:
    """Words such as '-' or 'missing', which are gaps among numbers and dates."""
    return np.asarray(pc.is_in(pc.utf8_lower(words), pa.array(MARKS)))


def parse_dates(words: pa.Array, spelling: str) -> Floats:
    """Days since 1970, with a fraction for the hour; nan for what is no such date."""
    return np.array([parse_date(word, spelling) for word in words.to_pylist()], np.float64)


def parse_date(word: str, spelling: str) -> float:
    try:
        if spelling == "iso":
            if word.isdigit():
                return np.nan  # 20240131 is a number until somebody says otherwise
            when = datetime.fromisoformat(word)
        elif spelling == "time":
            when = datetime.strptime(*_with_hours(f"1970 {word}" if TIME.fullmatch(word) else "", "%Y"))
        else:
            when = datetime.strptime(*_with_hours(word, spelling))
    except (ValueError, IndexError):
        return np.nan
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - EPOCH).total_seconds() / DAY


def _with_hours(word: str, spelling: str) -> tuple[str, str]:
    """A date as strptime takes it, and its spelling with that of the hours behind it, if there are some."""
    half = word[-2:].lower() in ("am", "pm")
    plain = f"{word[:-2].rstrip()} {word[-2:]}" if half else word
    return plain, spelling + (HALVES if half else HOURS)[word.count(":")]


def format_date(days: float, spelling: str = "iso") -> str:
    """The date of so many days; without the hour where it is midnight."""
    when = datetime.fromtimestamp(round(days * DAY), UTC)
    if spelling == "time":
        return f"{when:%H:%M:%S}"
    text = when.isoformat() if spelling == "iso" else when.strftime(spelling + HOURS[-1])
    return re.sub(r"[T ]00:00(:00)?(\+00:00)?$", "", text)


Parse = Callable[[pa.Array], Floats]


def number_parsers(commas: bool, unit: str = "") -> dict[str, Parse]:
    """By spelling, the likelier first: where commas do not separate cells, they are decimal ones."""
    order = ("point", "comma", "grouped") if commas else ("point", "grouped", "comma")
    return {name: partial(parse_numbers, spelling=name, unit=unit) for name in order}


def date_parsers() -> dict[str, Parse]:
    return {name: partial(parse_dates, spelling=name) for name in DATES}
