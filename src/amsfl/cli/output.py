"""What commands print: text as it is, and JSON that every reader takes. What goes wrong is one sentence on
stderr: exit code 2 for a mistake, 1 for the machine's trouble.
"""

import os
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Group, MissingArgumentError, Parameter, UnknownOptionError

from amsfl.core import Remark, UserError, missing, nearest
from amsfl.core.names import blame

if TYPE_CHECKING:
    from rich.console import Console

    from amsfl.data import Dataset

OTHER_NAMES = {  # flags of other tools that are spelled quite otherwise, and ours
    "--algorithm": "--method",
    "--alpha": "--partition",
    "--budget-seconds": "--budget",
    "--clients-per-round": "--cohort",
    "--compression": "--transmit",
    "--csv": "--data",
    "--duration": "--seconds",
    "--file": "--data",
    "--fraction": "--cohort",
    "--iterations": "--rounds",
    "--learning-rate": "--lr",
    "--network": "--model",
    "--random-seed": "--seed",
    "--strategy": "--method",
    "--target-column": "--label",
}
ALL = "--help-all"  # shows every flag, --help those that most people need
OWN = Group("Of this command", sort_key=1)
AsJson = Annotated[bool, Parameter(name="--json", help="print JSON, nothing else")]


def screen(stderr: bool = False) -> "Console":
    """A console that takes names as they are: [brackets] and :colons: mean nothing to it."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # nothing is broken into lines of 80 in a file
    width = None if stream.isatty() or "COLUMNS" in os.environ else 1000
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


def print_table(head: Collection[str], rows: Iterable[Iterable[str]], left: Collection[str]) -> None:
    """Columns under their names: those of `left` begin in one line, all others end in one."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="underline")
    for name in head:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row))
    screen().print(table)


def any_terminal() -> None:
    """Letters that a terminal does not have are spelled out (\\xe5), not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def describe_data(data: "Dataset", stderr: bool = True) -> None:
    """A table as it is read, before anything is trained on it; on request data by name, too."""
    from amsfl.data import describe
    from amsfl.data.dataset import is_own_table

    if stderr and not is_own_table(data):
        return
    for line in describe(data):
        say(line, stderr)


def usage(mistake: CycloptsError, words: Sequence[str]) -> str:
    """What is wrong with the words that were typed, in a sentence that suggests the right ones."""
    command = " ".join(["amsfl", *words[: len(mistake.command_chain or ())]])
    if isinstance(mistake, UnknownOptionError):
        typed = str(mistake.token.keyword or mistake.token.value).partition("=")[0]
        flags = [name for each in mistake.argument_collection for name in each.names if name.startswith("--")]
        other = OTHER_NAMES.get(typed)
        close = f" (did you mean {other}?)" if other in flags else nearest(typed, flags)
        return f"'{command}' has no flag {typed}{close}."
    if isinstance(mistake, MissingArgumentError) and mistake.argument is not None:
        what = mistake.argument
        return f"'{command}' needs {what.names[0]}, {what.parameter.help}; see '{command} --help'."
    mistake.verbose = False
    sentence = " ".join(str(mistake).split()).rstrip(".")
    return f"{sentence}; see '{command} --help'."


@contextmanager
def sentences() -> Iterator[None]:
    """`with sentences():`, or `sentences()(command)`: what a user's mistake or a full disk comes to."""
    show = warnings.showwarning

    def showwarning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        """Remarks as one line each; other warnings as ever."""
        if issubclass(category, Remark):
            _say(str(message))
        else:
            show(message, category, *rest, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Remark)
        warnings.showwarning = showwarning
        try:
            yield
        except UserError as mistake:
            _say(str(mistake))
            raise SystemExit(mistake.code) from mistake
        except ModuleNotFoundError as absent:
            if not missing(absent):
                raise
            _say(missing(absent))
            raise SystemExit(2) from absent
        except (BrokenPipeError, CycloptsError):
            raise
        except OSError as trouble:
            what = trouble.strerror or str(trouble) or type(trouble).__name__
            _say(f"{trouble.filename}: {what}." if trouble.filename else f"{what}.")
            raise SystemExit(1) from trouble
        except Exception as trouble:
            # how Python says that a thread's stack got no memory
            if isinstance(trouble, MemoryError) or str(trouble) == "can't start new thread":
                _say("There is not enough memory for this; use fewer clients, a smaller model or less data.")
                raise SystemExit(1) from trouble
            said = blame(trouble)
            if not said:
                raise
            _say(said)
            raise SystemExit(2) from trouble


def _say(sentence: str) -> None:
    print(f"amsfl: {plain(sentence)}", file=sys.stderr)
