"""What all figures share: a canvas, the looks and labels of series, footnotes, and the way to SVG and PNG."""

import warnings
from collections.abc import Sequence
from textwrap import fill, wrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from amsfl.report.draw import style
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study
from amsfl.report.measure.text import short

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SMALL = 6.5  # points
ROW = 24  # letters beside a row before it takes a second line


class Drawn(NamedTuple):
    name: str
    title: str
    caption: str
    figure: "Figure"


class Picture(NamedTuple):
    name: str
    title: str
    caption: str
    svg: str  # for the page, which has the notes once
    alone: str  # the same with its notes, as a file
    png: bytes


def canvas(
    height: float, rows: int = 1, columns: int = 1, sharex: bool = False, sharey: bool = False
) -> tuple["Figure", list[list["Axes"]]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(style.WIDTH, height))
    grid = np.atleast_2d(figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey))
    return figure, [list(row) for row in grid]


def render(drawn: Drawn, notes: Sequence[str]) -> Picture:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter of a name that the font has not: a box
        svg = style.to_svg(drawn.figure)
        footnotes(drawn.figure, notes)
        alone = style.to_svg(drawn.figure) if notes else svg
        drawn.figure.set_layout_engine("none")  # it is laid out, which takes longer than to draw it
        return Picture(*drawn[:3], svg, alone, style.to_png(drawn.figure))


def footnotes(figure: "Figure", notes: Sequence[str]) -> None:
    """Below the drawing, so that a figure by itself still says what its numbers are."""
    lines = [line for note in notes for line in wrap(note, 100)]
    engine = figure.get_layout_engine()
    if not lines or engine is None:
        return
    room = (len(lines) * SMALL * 1.4 + 6) / 72
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + room)
    share = room / (height + room)
    engine.set(rect=(0, share, 1, 1 - share))  # type: ignore[call-arg]
    top = (room - 3 / 72) / (height + room)
    figure.text(0.012, top, "\n".join(lines), va="top", fontsize=SMALL, linespacing=1.4)


def look(one: Measured) -> style.Look:
    return style.look(one.place)


def name(one: Measured) -> str:
    return short(one.label)


def name_rows(axes: "Axes", study: Study) -> None:
    """Methods on the vertical axis, first one on top."""
    axes.set_yticks(range(len(study.found)), [fill(name(one), ROW) for one in study.found])
    axes.set_ylim(len(study.found) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def legend(figure: "Figure", handles: Sequence["Artist"], labels: Sequence[str], columns: int = 0) -> None:
    """Above the panels; a name that begins with _ is not left out, as matplotlib would."""
    longest = max(len(label) for label in labels)
    columns = columns or (4 if longest < 14 else 2 if longest < 36 else 1)
    kept = [f" {label}" if label.startswith("_") else label for label in labels]
    figure.legend(list(handles), kept, loc="outside upper center", ncols=columns)
