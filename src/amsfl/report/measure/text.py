"""Names as they may be shown: all that they hold, without what would break a line or steer a reader.

Class, client, column and file names come from the user's data. Each output escapes them in its own way;
before that, no name may hold what no output can show.
"""

import unicodedata
from collections.abc import Sequence

LONG = 40  # letters that a figure has room for
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
# they turn the direction of what follows: a name must not rearrange the text around it
STEERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def shown(text: str) -> str:
    """The text on one line: white space is one space, what cannot be seen is a sign that can."""
    return " ".join("".join(map(_letter, text)).split())


def block(text: str) -> str:
    """The same for text of several lines, each as wide as it is."""
    return "\n".join("".join(map(_letter, line)) for line in text.split("\n"))


def _letter(letter: str) -> str:
    if letter.isspace():
        return " "
    code, kind = ord(letter), unicodedata.category(letter)
    if code < 32 or code == 127:
        return chr(0x2421 if code == 127 else 0x2400 + code)  # pictures of the control characters
    outside = kind in ("Cc", "Cs") or code & 0xFFFE == 0xFFFE  # no XML holds them
    return UNKNOWN if outside or letter in STEERING else letter


def distinct(names: Sequence[str]) -> list[str]:
    """The names as shown, each one different: a number behind those that look like an earlier one."""
    seen: dict[str, int] = {}
    result = []
    for name in map(shown, names):
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result


def short(text: str, most: int = LONG) -> str:
    """For figures: the beginning of a long name; tables have it whole."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
