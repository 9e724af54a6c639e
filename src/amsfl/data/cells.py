"""One column's cells: numbers, dates in days since 1970, or words.

Text is read as what all of its cells fit. Where they fit two readings that differ (1,234 or 03/04/2024),
nobody guesses: the message names both.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from amsfl.core import UserError
from amsfl.data.recipe import FORMS, columns_flag, whole

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]

GAPS = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?"))  # in any capitals
MARKS = GAPS | {  # among numbers and dates
    *("-", "--", ".", "none", "missing", "unknown", "n.a.", "nd"),
    *("#div/0!", "#name?", "#null!", "#num!", "#ref!", "#value!"),  # what Excel could not compute
}
FLAGS = {"true": 1.0, "false": 0.0}
SAMPLE = 200  # words by which most columns of words are known for such
ODD = 0.1  # share of cells that do not fit the others: below it they are typos, above it all are words
WHOLE = 2.0**53  # from here on float64 does not hold every whole number
DAY, EPOCH = 86_400, datetime(1970, 1, 1, tzinfo=UTC)
DAY_MONTH = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T](\d{1,2}:\d{2}(?::\d{2})?))?")


def spell(cells: pd.Series, missing: Sequence[str] = ()) -> Values:
    """Cells as words, None for a gap; whole numbers without a point, dates as year-month-day."""
    try:
        codes, distinct = pd.factorize(cells)
    except TypeError:  # lists and the like have no hash
        codes, distinct = pd.factorize(cells.map(str))
    words = [_spell_one(value) for value in distinct]
    kept = [None if word.lower() in GAPS or whole(word) in missing else word for word in words]
    return np.asarray(np.array([*kept, None], object)[codes])


def _spell_one(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < WHOLE:
        return f"{value:.0f}"
    if isinstance(value, datetime):
        return value.isoformat().removesuffix("T00:00:00")
    return str(value).strip()


def read_cells(
    cells: pd.Series, asked: str = "", form: str = "", comma: bool = False, missing: Sequence[str] = ()
) -> tuple[str, Values, str, tuple[str, ...]]:
    """Numbers or dates where all cells are such, else words: kind, values, form (of FORMS), remarks.

    Numbers and days are float64 with nan for a gap, words are objects with None. `asked`: how the user wants
    it read, `form`: that its training rows had, `comma`: its file has decimal commas beyond doubt.
    """
    typed = pd.api.types
    if asked not in ("date", "day-first", "month-first") and typed.is_numeric_dtype(cells.dtype):
        return "number", _finite(cells, cells.to_numpy(float, na_value=np.nan), missing), "", ()
    if typed.is_datetime64_any_dtype(cells.dtype):
        plain = cells if cells.dt.tz is None else cells.dt.tz_convert("UTC").dt.tz_localize(None)
        return "date", (plain - pd.Timestamp(0)).dt.total_seconds().to_numpy(float) / DAY, "", ()
    words = spell(cells, missing)
    codes, distinct = pd.factorize(words)
    marks = np.array([word.lower() in MARKS for word in distinct], bool)
    used = list(distinct[~marks])
    reading = _read_words(cells, codes, distinct, marks, asked, form, comma) if used else None
    if reading is None:
        return "text", words, "", ()
    kind, form, values = reading
    numbers = np.full(len(distinct) + 1, np.nan)
    numbers[:-1][~marks] = values
    return kind, numbers[codes], form, _describe(str(cells.name), kind, form, distinct[marks])


def _read_words(
    cells: pd.Series, codes: Values, distinct: Values, marks: Values, how: str, known: str, comma: bool
) -> tuple[str, str, Floats] | None:
    """The kind, the form and the values of the words that are no marks for gaps; None: they are words."""
    name, used = str(cells.name), list(distinct[~marks])
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))[~marks]
    for kind, read in (("number", number_readings), ("date", date_readings)):
        asked = how in (kind, *read([]))
        if how not in ("", "keep") and not asked:
            continue
        if not asked and all(np.isnan(each).mean() > 0.5 for each in read(used[:SAMPLE]).values()):
            continue
        readings = read(used)
        form = choose(name, used, readings, how, known, comma)
        if form is not None:
            plain = form == "year-first" or (form == "decimal-point" and not any("," in w for w in used))
            return kind, "" if plain else form, readings[form]
        best = min(readings.values(), key=lambda values: counts[np.isnan(values)].sum())
        odd = np.isnan(best)
        if asked or counts[odd].sum() <= ODD * counts.sum():
            word = distinct[~marks][odd][0]
            row = int(np.argmax(codes == int(np.argmax(distinct == word))))
            raise UserError(
                f"{place(cells.index, row)}, column {name!r} is {word!r}, but the rest are {kind}s; mend the "
                f"cell, say --missing={quote(word)} if it is a gap, or read all as words: "
                f"{columns_flag(name, 'words')}."
            )
    return None


def choose(
    name: str, words: Sequence[str], readings: Mapping[str, Floats], asked: str, known: str, comma: bool
) -> str | None:
    """The form that reads every word; None where there is none. Two that differ are refused."""
    fits = {form: values for form, values in readings.items() if not np.isnan(values).any()}
    if not fits:
        return None
    one, *others = fits
    differ = next((form for form in others if (fits[form] != fits[one]).any()), "")
    if not differ or asked in fits:
        return asked if asked in fits else one
    commas = any("," in word for word in words)
    if "decimal-comma" in fits and comma:
        return "decimal-comma"
    if "decimal-comma" in fits and not commas and known != "decimal-comma":
        return "decimal-point"
    if known in fits and (known != "decimal-comma" or commas):
        return known
    word = words[int(np.argmax(fits[one] != fits[differ]))]
    raise UserError(
        f"Column {name!r} has {word!r}, which may be read as {FORMS[one]} or as {FORMS[differ]}; say "
        f"{columns_flag(name, one)} or {name}={differ} when you train, or write it so that all can tell."
    )


def number_readings(words: Sequence[str]) -> dict[str, Floats]:
    """By either decimal mark, the other one between thousands; nan for what is no finite number."""
    if words and all(word.lower() in FLAGS for word in words):
        return {"decimal-point": np.array([FLAGS[word.lower()] for word in words])}
    readings = {}
    for form, mark, other in (("decimal-point", ".", ","), ("decimal-comma", ",", ".")):
        grouped = re.compile(rf"[+-]?[1-9]\d{{0,2}}(\{other}\d{{3}})+(\{mark}\d+)?")
        plain = [
            word if other not in word else word.replace(other, "") if grouped.fullmatch(word) else "none"
            for word in words
        ]
        cells = pd.Series([word.replace(",", ".") for word in plain] if mark == "," else plain, dtype=object)
        numbers = pd.to_numeric(cells, errors="coerce").to_numpy(float)
        readings[form] = np.where(np.isfinite(numbers), numbers, np.nan)
    return readings


def date_readings(words: Sequence[str]) -> dict[str, Floats]:
    forms = ("year-first", "day-first", "month-first")
    return {form: np.array([_days(word, form) for word in words], float) for form in forms}


def _days(word: str, form: str) -> float:
    text = word.replace("/", "-")
    if form == "year-first" and not word[:4].isdigit():  # sooner known than refused below
        return np.nan
    if form != "year-first":
        parts = DAY_MONTH.fullmatch(word)
        if parts is None or (parts[2] == "." and form == "month-first"):
            return np.nan
        day, month = (parts[1], parts[3]) if form == "day-first" else (parts[3], parts[1])
        hour = parts[5] or "00:00"
        text = f"{parts[4]}-{month:0>2}-{day:0>2}T{'0' * (hour[1] == ':')}{hour}"
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - EPOCH).total_seconds() / DAY


def _finite(cells: pd.Series, numbers: Floats, missing: Sequence[str]) -> Floats:
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise UserError(f"{place(cells.index, row)}, column {cells.name!r} is {numbers[row]}; mend the cell.")
    codes = pd.to_numeric(pd.Series(missing, dtype=object), errors="coerce").dropna()
    return np.where(np.isin(numbers, codes.to_numpy(float)), np.nan, numbers)


def place(index: pd.Index, row: int) -> str:
    """Where a row stands, for people: `Line 5`, or of several files `north.csv, line 5`."""
    where = index[row]
    if isinstance(where, tuple):
        return f"{where[0]}, {index.names[1]} {where[1]}"
    return f"{str(index.name).title()} {where}"


def _describe(name: str, kind: str, form: str, marks: Values) -> tuple[str, ...]:
    """Remarks on what was decided."""
    remarks = []
    if len(marks):
        some = " and ".join(map(repr, sorted(marks)))
        remarks.append(f"In {name!r}, {some} among {kind}s is a gap.")
    if form:
        what = "Dates" if kind == "date" else "Numbers"
        remarks.append(f"{what} in {name!r} are read as {FORMS[form]}.")
    return tuple(remarks)
