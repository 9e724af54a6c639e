"""The asynchrony study as a picture: seconds to the target, a line a contestant, a colour a profile."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from amsfl.report.draw import style
from amsfl.report.draw.drawing import canvas, legend, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Cell(Protocol):
    """One contestant in one setting."""

    @property
    def name(self) -> str: ...
    @property
    def profile(self) -> str: ...
    @property
    def availability(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def reached(self) -> bool: ...


def draw(cells: Sequence[Cell], folder: Path) -> None:
    """asynchrony.png and .svg; a panel for each way of being there."""
    if cells:
        save("asynchrony", "Time to the target", lambda: _figure(cells), folder)


def _figure(cells: Sequence[Cell]) -> "Figure":
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(cell.name for cell in cells))
    profiles = list(dict.fromkeys(cell.profile for cell in cells))
    ways = list(dict.fromkeys(cell.availability for cell in cells))
    figure, grid = canvas(0.34 * len(names) + 1.5, columns=len(ways), sharex=True, sharey=True)
    for axes, way in zip(grid[0], ways, strict=True):
        for cell in cells:
            if cell.availability == way:
                look = style.look(profiles.index(cell.profile))
                marker = look.marker.code if cell.reached else ">"
                axes.plot(cell.seconds, names.index(cell.name), marker, color=look.colour, ms=6, mew=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_title(way, fontsize=8)
        axes.set_xlabel("virtual seconds to the target")
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.set_ylim(len(names) - 0.4, -0.6)
    keys = [
        Line2D([], [], color=look.colour, marker=look.marker.code, ls="")
        for look in map(style.look, range(len(profiles)))
    ]
    legend(figure, keys, profiles, columns=len(profiles))
    return figure
