"""What goes wrong is one sentence on stderr: exit code 2 for a mistake, 1 for the machine's trouble."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import typer

from amsfl.cli.output import plain
from amsfl.core import Remark, UserError

P = ParamSpec("P")
R = TypeVar("R")
EXTRAS = {"flwr": "flower"}  # which extra brings a package that some commands need


@contextmanager
def sentences() -> Iterator[None]:
    """`with sentences():` around anything that may meet a user's mistake or a full disk."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", Remark)
        warnings.showwarning = _remarks(warnings.showwarning)
        try:
            yield
        except UserError as mistake:
            _say(str(mistake))
            raise typer.Exit(mistake.code) from mistake
        except ModuleNotFoundError as missing:
            extra = EXTRAS.get((missing.name or "").partition(".")[0])
            if extra is None:
                raise
            _say(f"This needs {missing.name}, which is not installed: pip install 'amsfl[{extra}]'")
            raise typer.Exit(2) from missing
        except OSError as trouble:
            what = trouble.strerror or str(trouble) or type(trouble).__name__
            _say(f"{trouble.filename}: {what}." if trouble.filename else f"{what}.")
            raise typer.Exit(1) from trouble
        except MemoryError as trouble:
            _say("There is not enough memory for this; use fewer clients, a smaller model or less data.")
            raise typer.Exit(1) from trouble


def friendly(command: Callable[P, R]) -> Callable[P, R]:
    """`@friendly` above a command."""
    return sentences()(command)


def _remarks(show: Callable[..., None]) -> Callable[..., None]:
    """Remarks as one line each; other warnings as ever."""

    def showwarning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, Remark):
            _say(str(message))
        else:
            show(message, category, *rest, **more)

    return showwarning


def _say(sentence: str) -> None:
    print(f"amsfl: {plain(sentence)}", file=sys.stderr)
