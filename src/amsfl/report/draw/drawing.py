"""What all figures share: a canvas, the looks and labels of series, footnotes, SVG and PNG."""

import warnings
from collections.abc import Sequence
from textwrap import fill, wrap
from typing import TYPE_CHECKING, NamedTuple

from amsfl.report.draw import style
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import short

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SMALL = 6.5  # points
ROW = 24  # letters of a row's label before it takes a second line


class DrawnFigure(NamedTuple):
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
    grid = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    return figure, [list(row) for row in grid]


def render(drawn: DrawnFigure, notes: Sequence[str]) -> Picture:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter that the font lacks is drawn as a box
        svg = style.to_svg(drawn.figure)
        _add_footnotes(drawn.figure, notes)
        alone = style.to_svg(drawn.figure) if notes else svg
        drawn.figure.set_layout_engine("none")  # laid out already, which takes longer than drawing
        return Picture(*drawn[:3], svg, alone, style.to_png(drawn.figure))


def _add_footnotes(figure: "Figure", notes: Sequence[str]) -> None:
    """Below the drawing, for a figure that stands alone."""
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


def look(one: MeasuredSeries) -> style.Look:
    return style.look(one.place)


def name(one: MeasuredSeries) -> str:
    return short(one.label)


def name_rows(axes: "Axes", subject: Subject) -> None:
    """Methods on the vertical axis, first one on top."""
    axes.set_yticks(range(len(subject.methods)), [fill(name(one), ROW) for one in subject.methods])
    axes.set_ylim(len(subject.methods) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def legend(figure: "Figure", handles: Sequence["Artist"], labels: Sequence[str], columns: int = 0) -> None:
    """Above the panels. matplotlib leaves out labels that begin with _, so they get a space."""
    longest = max(len(label) for label in labels)
    columns = columns or (4 if longest < 14 else 2 if longest < 36 else 1)
    visible = [f" {label}" if label.startswith("_") else label for label in labels]
    figure.legend(list(handles), visible, loc="outside upper center", ncols=columns)
