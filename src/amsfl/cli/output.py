"""What commands print: text as it is, whatever it says, and JSON that every reader takes."""

import os
import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.console import Console

    from amsfl.data import Dataset

WIDE = 1000
AsJson = Annotated[bool, Parameter(name="--json", help="print JSON, nothing else")]


def screen(stderr: bool = False, width: int | None = None) -> "Console":
    """A console that takes names as they are: [brackets] and :colons: mean nothing to it."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if width is None and not stream.isatty() and "COLUMNS" not in os.environ:
        width = WIDE  # nothing is broken into lines of 80 in a file
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def on_terminal() -> bool:
    """Whether standard error is a terminal; FORCE_COLOR, as notebooks set it, does not make it one."""
    return sys.stderr.isatty()


def plain(text: str) -> str:
    """Control characters made visible: a name must not move the cursor or colour the terminal."""
    return "".join(
        c if c == "\n" or (c >= " " and not "\x7f" <= c <= "\x9f") else repr(c)[1:-1] for c in text
    )


def say(text: str, stderr: bool = False) -> None:
    print(plain(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def print_json(value: object, indent: int | None = None) -> None:
    from amsfl.record import dumps

    print(dumps(value, indent))


def print_table(
    head: Collection[str], rows: Iterable[Iterable[str]], left: Collection[str], gap: int = 2
) -> None:
    """Columns under their names: those of `left` begin in one line, all others end in one."""
    from rich.table import Table

    table = Table(box=None, padding=(0, gap, 0, 0), header_style="underline")
    for name in head:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(plain, row))
    screen().print(table)


def any_terminal() -> None:
    """Letters that a terminal does not have are spelled out (\\xe5), not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def describe_data(data: "Dataset", partition: str = "auto", stderr: bool = True) -> None:
    """A table as it is read, before anything is trained on it; on request data by name, too."""
    from amsfl.data import describe
    from amsfl.data.dataset import is_own_table

    if stderr and not is_own_table(data):
        return
    out = screen(stderr)
    for line in describe(data, partition):
        out.print(plain(line), soft_wrap=True)
