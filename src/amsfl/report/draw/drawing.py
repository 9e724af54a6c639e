"""What all figures share: a canvas, method colours and labels, footnotes, and the way to SVG and PNG."""

from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from amsfl.report.draw import style
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SMALL = 6.5  # points


class Drawn(NamedTuple):
    name: str
    title: str
    caption: str
    figure: "Figure"


class Picture(NamedTuple):
    name: str
    title: str
    caption: str
    svg: str
    png: bytes


def canvas(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple["Figure", Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(style.WIDTH, height))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def render(drawn: Drawn, study: Study) -> Picture:
    footnotes(drawn.figure, study)
    return Picture(
        drawn.name, drawn.title, drawn.caption, style.to_svg(drawn.figure), style.to_png(drawn.figure)
    )


def footnotes(figure: "Figure", study: Study) -> None:
    """Below the drawing, so that a figure by itself still says what its numbers are."""
    notes = [study.banner, *(one.series.note for one in study.found)]
    lines = [line for note in dict.fromkeys(filter(None, notes)) for line in wrap(note, 100)]
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


def colour(one: Measured) -> str:
    return style.COLOURS[one.series.method]


def name_rows(axes: "Axes", study: Study) -> None:
    """Methods on the vertical axis, first one on top."""
    axes.set_yticks(range(len(study.found)), [one.series.label for one in study.found])
    axes.set_ylim(len(study.found) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def legend_columns(labels: list[str]) -> int:
    longest = max(len(label) for label in labels)
    return 4 if longest < 14 else 2 if longest < 36 else 1
