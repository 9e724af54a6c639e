"""How text is read as numbers and dates: 1.5, 1,500 or 1,5; a date in one of the usual orders; with a unit, a
mark for a gap or a detection limit."""

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.data.cells import Cells, Floats, Mask
from amsfl.data.dates import parse_date
from amsfl.data.recipe import ColumnRecipe

SAMPLE = 200  # words by which a column is tried first
ENOUGH = 1000  # rows by which a file's decimal commas are known
MARKS = (  # gaps, among numbers
    *("-", "--", ".", "none", "missing", "unknown", "n.a.", "nd", "nil", "k.a."),
    *("#div/0!", "#name?", "#null!", "#num!", "#ref!", "#value!"),  # what Excel could not compute
)
LIMIT = r"^[<>]=?\s*"  # <0.5: below a detection limit
SIGN = r"^[+-]?"
PATTERNS = {  # as RE2 has them
    "point": SIGN + r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$",
    "grouped": SIGN + r"(\d{1,3}(,\d{3})+(\.\d+)?|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)$",  # 1,234,567.8
    "comma": SIGN + r"(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?$",  # 1234,5 and 1.234,5
}
THOUSANDS = SIGN + r"[1-9]\d{0,2}(\.\d{3})+$"  # 1.200: a point that may stand between thousands
DECIMALS = SIGN + r"(\d+(\.\d{3})*,(\d{1,2}|\d{4,})|0,\d+)$"  # 1,5: a comma that cannot
BLANKS = "[ '\u2019\u00a0\u202f]"  # between thousands, too
SPACED = SIGN + rf"\d{{1,3}}({BLANKS}\d{{3}})+([.,]\d+)?$"
BRACKETS = r"^\(([\d.,]+)\)$"  # (5.50): accountants' -5.50
MONEY = ("€", "$", "£", "¥", "₹", "₩", "₽", "zł", "kr", "EUR", "USD", "GBP", "CHF")  # before a number, too
BARE = rf"^[<>=+\-(]*\d([\d.,eE+\-)]|{BLANKS})*$"  # a number, or nearly one, without a unit
UNITS = (
    *("%", "kg", "mg", "g", "km", "cm", "mm", "m", "ml", "l", "mmHg", "bpm", "°C", "°F", "h", "min"),
    *("s", "ms", "lb", "mg/dL", "mmol/L", *MONEY),
)


def parse_numbers(words: pa.Array, spelling: str, unit: str = "") -> Floats:
    """The number in each word; nan where there is none by this spelling, and for what is not finite."""
    if spelling == "flag":
        lower, spelling = pc.utf8_lower(words), "point"
        words = pc.if_else(pc.equal(lower, "true"), "1", pc.if_else(pc.equal(lower, "false"), "0", words))
    if unit:
        words = pc.coalesce(_without_unit(words, unit), words)
    if pc.any(pc.match_substring_regex(words, LIMIT)).as_py():
        words = pc.replace_substring_regex(words, LIMIT, "")
    words = _plain(words)
    words = pc.if_else(pc.match_substring_regex(words, PATTERNS[spelling]), words, None)
    if spelling == "comma":
        words = pc.replace_substring(pc.replace_substring(words, ".", ""), ",", ".")
    elif spelling == "grouped":
        words = pc.replace_substring(words, ",", "")
    numbers = np.array(words.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def _plain(words: pa.Array) -> pa.Array:
    """With ASCII's minus, and nothing but points and commas between digits."""
    words = pc.replace_substring_regex(pc.replace_substring(words, "\u2212", "-"), BRACKETS, r"-\1")
    spaced = pc.match_substring_regex(words, SPACED)
    if not pc.any(spaced).as_py():
        return words
    return pc.if_else(spaced, pc.replace_substring_regex(words, BLANKS, ""), words)


def has_decimal_commas(columns: Iterable[Cells]) -> bool:
    """Whether some column is numbers with decimal commas beyond doubt."""
    for cells in columns:
        if cells.kind != "text" or cells.point is not None:
            continue
        words = cells.array[:ENOUGH].drop_null()
        words = words.filter(pa.array(~is_mark(words)))
        certain = pc.any(pc.match_substring_regex(words, DECIMALS)).as_py()
        if certain and not np.isnan(parse_numbers(words, "comma")).any():
            return True
    return False


def may_group_thousands(words: pa.Array) -> bool:
    """Whether there are points, and each may stand between thousands."""
    pointed = words.filter(pc.match_substring(words, "."))
    return bool(len(pointed) and pc.all(pc.match_substring_regex(pointed, THOUSANDS)).as_py())


def _without_unit(words: pa.Array, unit: str) -> pa.Array:
    """The number without that unit, null where a word has no such unit. Codes such as s12 keep theirs."""
    number, name = rf"\d([\d.,]|{BLANKS}\d)*", re.escape(unit)
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


def has_unit(words: pa.Array, unit: str) -> Mask:
    return np.asarray(_without_unit(words, unit).is_valid())


def find_unit(words: pa.Array) -> str:
    """The unit that words have behind or before a number; '' where there is none.

    Words without one may stand among them, but not beside percents: 0.12 may be 12%.
    """
    marked = words.filter(pc.invert(pc.match_substring_regex(words, BARE)))
    first = marked.slice(0, 1)
    if not len(first):
        return ""
    fits = (unit for unit in UNITS if _without_unit(first, unit).null_count == 0)
    unit = next((unit for unit in fits if _without_unit(marked, unit).null_count == 0), "")
    return "" if unit == "%" and len(marked) < len(words) else unit


def class_name(word: str) -> str:
    """1.0 is 1: a column of whole numbers with a gap is written so by many programs."""
    whole = re.sub(r"^([+-]?\d+)\.0+$", r"\1", word)
    return "0" if whole in ("-0", "+0") else whole


def plain_word(word: str) -> str:
    """What a word has in common with its other spellings: 1 and 1.0; TRUE, True and true."""
    return word.lower() if word.lower() in ("true", "false") else class_name(word)


def is_mark(words: pa.Array) -> Mask:
    """Words such as '-' or 'missing', which are gaps among numbers and dates."""
    return np.asarray(pc.is_in(pc.utf8_lower(words), pa.array(MARKS)))


def parse(column: ColumnRecipe, words: pa.Array) -> Floats:
    """Numbers, or dates in days since 1970; nan for what is none by the column's spelling."""
    if column.read == "date":
        return np.array([parse_date(word, column.spelling) for word in words.to_pylist()], np.float64)
    return parse_numbers(words, column.spelling, column.unit)


def reads_all(column: ColumnRecipe, words: pa.Array) -> bool:
    """Whether it reads every word; by a few of them first, which tell of most columns that it does not."""
    return not (np.isnan(parse(column, words[:SAMPLE])).any() or np.isnan(parse(column, words)).any())


def are_ranges(words: pa.Array) -> bool:
    """Whether signs are what cells say (<65, >=65), not marks of a few detection limits among numbers."""
    below, above = (words.filter(pc.starts_with(words, sign)) for sign in "<>")
    signed = len(below) + len(above)
    if signed == len(words):
        return signed > 0
    return bool(np.isin(parse_numbers(below, "point"), parse_numbers(above, "point")).any())
