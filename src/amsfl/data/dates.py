"""Dates and times in the usual orders, as days since 1970."""

import re
from datetime import UTC, datetime

import numpy as np

DAY = 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DATES = {  # in this order: the first that fits every cell
    "iso": "year-month-day",
    "%d.%m.%Y": "day.month.year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y": "month/day/year",
    "%Y/%m/%d": "year/month/day",
    "%d-%m-%Y": "day-month-year",
    "%d.%m.%y": "day.month.year (1969 to 2068)",
    "%d/%m/%y": "day/month/year (1969 to 2068)",
    "%m/%d/%y": "month/day/year (1969 to 2068)",
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
