"""forecast.html: which way to run a federation, in one file that can be mailed to whoever decides."""

import base64
from collections.abc import Sequence
from pathlib import Path

from amsfl.core.version import VERSION
from amsfl.record import write_atomically
from amsfl.report.draw.forecast import Way, picture
from amsfl.report.write import html


def write(
    folder: Path,
    title: str,
    advice: str,
    scope: str,
    ways: Sequence[Way],
    goal: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str],
    banners: Sequence[str] = (),
) -> list[Path]:
    """The page, and its picture by itself; their paths."""
    drawn = picture(ways, goal) if any(way.seconds is not None for way in ways) else None
    page = html.page(
        "forecast.html",
        ["page.css"],
        [],
        title=title,
        banners=list(banners),
        advice=advice,
        scope=scope,
        picture=drawn._asdict() if drawn else None,
        data=base64.b64encode(drawn.svg.encode()).decode() if drawn else "",
        head=list(head),
        rows=[list(row) for row in rows],
        notes=list(notes),
        version=VERSION,
    ).text
    files = {"forecast.html": page.encode()}
    files |= {"forecast.svg": drawn.alone.encode(), "forecast.png": drawn.png} if drawn else {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [folder / name for name in files]
