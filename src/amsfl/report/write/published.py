"""published.html: a published table, ours beside theirs, in one file; the same as Markdown."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amsfl.record import write_atomically
from amsfl.report.write import html

NAME = "published"


class PublishedPage(NamedTuple):
    title: str
    source: str
    head: Sequence[str]  # of the table
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines) if self.rows else "Not run yet."
        notes = "\n".join(f"- {note}" for note in self.notes)
        return f"{self.source}.\n\n{table}\n\n{notes}\n"


def write(folder: Path, content: PublishedPage) -> Path:
    """Both files; the page's path."""
    scope = "Mean and deviation over trials of the best accuracy of any round; apart: in joint deviations."
    text = html.page(
        "published.html",
        ["page.css"],
        [],
        advice=f"{content.source}.",
        scope=scope,
        banners=(),
        **content._asdict(),
    ).text
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{NAME}.md", content.markdown().encode())
    write_atomically(folder / f"{NAME}.html", text.encode())
    return folder / f"{NAME}.html"
