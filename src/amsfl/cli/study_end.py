"""What all studies' commands do: say how far they are, read lists of numbers, show and keep the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.markdown import Markdown

from amsfl.cli.output import plain, screen
from amsfl.core import UserError


def watcher() -> Callable[[str, int, int], None]:
    """watch(name, number, total): a line for every unit that begins."""
    console = screen(stderr=True)

    def watch(name: str, number: int, total: int) -> None:
        console.print(plain(f"{number + 1} of {total}: {name}"))

    return watch


def numbers(option: str, given: str, example: str) -> list[float]:
    """`1,2,4` as numbers."""
    try:
        return [float(each) for each in given.split(",")]
    except ValueError:
        raise UserError(f"{option} is {given!r}; give numbers with commas, as in {example}.") from None


def present(
    out: Path, name: str, rows: Any, text: str, draw: Callable[[], None], picture: str | None = None
) -> None:
    """NAME.md, NAME.json and what `draw` draws, in the study's folder; the table on the screen."""
    from amsfl.record import dumps

    (out / f"{name}.md").write_text(text, encoding="utf-8")
    (out / f"{name}.json").write_text(dumps(rows, indent=1), encoding="utf-8")
    draw()
    screen(width=140).print(Markdown(text))
    typer.echo(f"{out / f'{name}.md'}, {out / f'{picture or name}.png'}")
