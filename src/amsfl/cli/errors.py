"""A user's mistake is one sentence on stderr and exit code 2; never a traceback."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import typer

from amsfl.core import UserError

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def sentences() -> Iterator[None]:
    """`with sentences():` around anything that may meet a user's mistake."""
    try:
        yield
    except UserError as mistake:
        print(f"amsfl: {mistake}", file=sys.stderr)
        raise typer.Exit(mistake.code) from mistake


def friendly(command: Callable[P, R]) -> Callable[P, R]:
    """`@friendly` above a command."""
    return sentences()(command)
