"""Names from users' data as they may be shown: on one line, without control characters.

Each output escapes them in its own way after that.
"""

import unicodedata
from collections.abc import Iterable, Sequence

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LONG = 40  # letters that a figure has room for
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
# they change the direction of the text that follows
STEERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def shown(text: str) -> str:
    """The text on one line; characters that cannot be seen become signs that can."""
    return " ".join("".join(map(_letter, text)).split())


def with_article(title: str) -> str:
    """As in `an AUC` and `a macro-F1`."""
    return f"{'an' if title[0] in 'aeiouARF' else 'a'} {title}"


def listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def plural(number: int, what: str) -> str:
    word = WORDS[number] if number < len(WORDS) else str(number)
    return f"{word} {what}{'' if number == 1 else 's'}"


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
    counts: dict[str, int] = {}
    result = []
    for name in map(shown, names):
        counts[name] = counts.get(name, 0) + 1
        result.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return result


def short(text: str, most: int = LONG) -> str:
    """For figures: the beginning of a long name; tables have it whole."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def differing(title: str, values: Iterable[object]) -> list[str]:
    """`TITLE: A; B` where values differ; None and '' differ from nothing."""
    texts = list(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    return [f"{title}: {'; '.join(short(shown(text)) for text in texts)}"] if len(texts) > 1 else []
