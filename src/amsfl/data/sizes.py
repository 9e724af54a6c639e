"""How large a table may be: whoever packed a file chose what it unpacks to, and what it says of that."""

import os
from contextlib import suppress
from pathlib import Path

from amsfl.core import UserError

COPIES = 4  # of a table's bytes that reading it takes
CONTAINER, PROCESS = Path("/sys/fs/cgroup/memory.max"), Path("/proc/self/statm")
SWOLLEN = 200  # content of so many times its file's bytes is no table,
SMALL = 1 << 28  # unless it is less than so many bytes


def largest() -> int:
    """Bytes of a table that can be read here: by the machine's memory, a container's, or a process's limit.

    pyarrow aborts the process where it gets no memory in the middle of a file, so this is asked before.
    """
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        limits = [os.sysconf("SC_PHYS_PAGES") * page]
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 33
    with suppress(OSError, ValueError):  # "max": none
        limits.append(int(CONTAINER.read_text()))
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            limits.append(most - int(PROCESS.read_text().split()[0]) * page)
    return max(min(limits), 0) // COPIES


def check_size(path: str, size: int, packed: bool = True) -> None:
    """Refuse content of so many bytes where it cannot be read, or is hardly meant to be."""
    if size > largest():
        raise UserError(
            f"{path} holds {size / 1e6:,.0f} MB or more, and there is memory for a table of "
            f"{largest() / 1e6:,.0f} MB; take a part of its rows or columns."
        )
    if packed and size > max(SMALL, SWOLLEN * Path(path).stat().st_size):
        raise UserError(
            f"{path} unpacks to more than {SWOLLEN} times its size, as files do that were made to fill a "
            "memory; if you know it, unpack it yourself."
        )
