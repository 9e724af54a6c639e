"""forecast.html: which way to run a federation, in one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amsfl.record import write_atomically
from amsfl.report.draw.forecast import ForecastBar, picture
from amsfl.report.write import html


class ForecastPage(NamedTuple):
    title: str
    advice: str
    scope: str
    bars: Sequence[ForecastBar]
    goal: str
    head: Sequence[str]  # of the table
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    banners: Sequence[str] = ()


def write(folder: Path, content: ForecastPage) -> list[Path]:
    """The page, and its picture by itself; their paths."""
    bars = [bar for bar in content.bars if bar.seconds is not None]
    drawn = picture(bars, content.goal) if bars else None
    text = html.page(
        "forecast.html",
        ["page.css"],
        [],
        picture=html.figure(drawn) if drawn else None,
        **content._asdict(),
    ).text
    files = {"forecast.html": text.encode()}
    files |= {"forecast.svg": drawn.alone.encode(), "forecast.png": drawn.png} if drawn else {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomically(folder / name, data)
    return [folder / name for name in files]
