"""Errors that a user can mend: they say what is wrong, why, and what to type."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 40  # names in a sentence


class UserError(ValueError):
    """A mistake in the input, not in the program: printed as a sentence, exit code 2, no traceback."""

    code = 2


class DiskError(UserError):
    """What the disk refuses or gives back damaged; the message is a sentence, as for a user's mistake."""

    code = 1


class Remark(UserWarning):
    """Something worth a line before work begins, no mistake: a setting without effect, a bound."""


def listed(names: Iterable[str]) -> str:
    """Names in a sentence; of very many, as a wide table has them, the first ones."""
    some = list(names)
    more = f" and {len(some) - MOST:,} more" if len(some) > MOST else ""
    return ", ".join(some[:MOST]) + more


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'fedavg'?)` for an unknown word, or the list of what there is.

    Args:
        word: What was typed.
        known: What there is.

    Returns:
        Text to put behind a sentence.
    """
    names = list(known)
    close = get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {listed(names)})"
