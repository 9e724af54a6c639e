"""A page of one table, in one file: forecast.html."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amsfl.record import write_atomically
from amsfl.report.draw.drawing import Picture
from amsfl.report.write import html


class TablePage(NamedTuple):
    name: str  # of the file
    title: str
    advice: str
    scope: str
    heading: str  # above the table
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    banners: Sequence[str] = ()
    heads: int = 1  # first cells of a row that say what it is of

    def markdown(self) -> str:
        """Without title and scope."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines) if self.rows else "Not run yet."
        notes = "\n".join(f"- {note}" for note in self.notes)
        return f"{self.advice}\n\n{table}\n\n{notes}\n"


def write(folder: Path, content: TablePage, picture: Picture | None = None) -> Path:
    """The page, and its picture by itself; the page's path."""
    drawn = html.figure(picture) if picture else None
    text = html.page("table.html", ["page.css"], [], picture=drawn, **content._asdict()).text
    files = {"html": text.encode()}
    files |= {"svg": picture.alone.encode(), "png": picture.png} if picture else {}
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, data in files.items():
        write_atomically(folder / f"{content.name}.{suffix}", data)
    return folder / f"{content.name}.html"
