"""How large a table may be: whoever packed a file chose what it unpacks to, and what it says of that."""

import os
from pathlib import Path

from amsfl.core import UserError

COPIES = 4  # of a table's bytes that reading it takes
SWOLLEN, SMALL = (
    200,
    1 << 28,
)  # content of so many times its file's bytes is no table; below so many it may be


def largest() -> int:
    """Bytes of a table that this machine can read."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // COPIES
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 33


def check_size(path: str, size: int, packed: bool = True) -> None:
    """Refuse content of so many bytes where it cannot be read, or is hardly meant to be."""
    if size > largest():
        raise UserError(
            f"{path} holds {size / 2**30:.1f} GiB or more, and this machine can read a table of "
            f"{largest() / 2**30:.1f} GiB; take a part of its rows or columns."
        )
    if packed and size > max(SMALL, SWOLLEN * Path(path).stat().st_size):
        raise UserError(
            f"{path} unpacks to more than {SWOLLEN} times its size, as files do that were made to fill a "
            "memory; if you know it, unpack it yourself."
        )
